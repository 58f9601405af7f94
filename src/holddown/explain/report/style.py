"""How the page looks: one column, one accent, figures that stand under one another; by day, by night, and on paper."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fdfdfb; --ink: #1b1d21; --ink-soft: #565b64; --rule: #dcdcd6; --wash: #f3f3ee;
  --first: #1c5d99; --second: #b3541e;
  --good: #1e6f43; --bad: #b3261e; --open: #8a5a00;
  --part-0: #1c5d99; --part-1: #79aed6; --part-2: #b3541e; --part-3: #e0a878; --part-4: #5c7f5a; --part-5: #a9b8a0;
  --part-6: #8a8f98;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #15171b; --ink: #e9e7e1; --ink-soft: #a8acb5; --rule: #33373e; --wash: #1d2025;
    --first: #7db4e6; --second: #ec9a62;
    --good: #77c79b; --bad: #ff8f85; --open: #e3b45c;
    --part-0: #7db4e6; --part-1: #3d6d99; --part-2: #ec9a62; --part-3: #9a5f35; --part-4: #8fb58c; --part-5: #566b53;
    --part-6: #777c85;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 58rem; padding: 3rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
}
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .75rem; letter-spacing: -.005em; }
h3 { font-size: 1rem; margin: 2rem 0 .5rem; }
p { margin: 0 0 1rem; max-width: 42rem; }
section { margin-top: 3rem; padding-top: 1.5rem; border-top: 1px solid var(--rule); }
code, pre {
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .86em;
}
code { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--wash); padding: .9rem 1rem; margin: 0 0 1rem; }
.soft, caption, figcaption, .because, footer { color: var(--ink-soft); }
.soft, figcaption, .because, footer { font-size: .9rem; }
.lead { font-size: 1.1rem; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); }
.good, .bad, .open, .neither { font-weight: 600; }

.figures {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr));
  gap: 1.25rem 2rem; margin: 2rem 0 0;
}
.figures div {
  border-top: 2px solid var(--ink); padding-top: .5rem;
  display: flex; flex-direction: column-reverse; justify-content: flex-end;
}
.figures dt { font-size: .85rem; color: var(--ink-soft); line-height: 1.35; }
.figures dd { margin: 0; font-size: 1.7rem; line-height: 1.25; font-variant-numeric: tabular-nums; }

dl { margin: 0 0 1rem; }
dd { margin: 0; overflow-wrap: anywhere; }
.pairs div { display: grid; grid-template-columns: 9rem 1fr; gap: 0 1.25rem; padding: .3rem 0; }
.pairs dt { color: var(--ink-soft); }
.pairs .bad { font-weight: inherit; }
.items { list-style: none; margin: 0 0 1rem; padding: 0; }
.items > li {
  padding: .6rem 0; border-bottom: 1px solid var(--rule);
  display: grid; grid-template-columns: 17rem 1fr; gap: .1rem 1.5rem;
}
.items > li:last-child { border-bottom: 0; }
.items p { margin: 0; max-width: none; }
.flag { font-weight: 600; overflow-wrap: anywhere; }

.wide { overflow-x: auto; margin: 0 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
caption { text-align: left; font-size: .9rem; padding-bottom: .4rem; }
caption span { display: block; max-width: calc(100vw - 2.5rem); }
th, td {
  padding: .35rem .9rem .35rem 0; text-align: left;
  vertical-align: baseline; border-bottom: 1px solid var(--rule);
}
th { font-weight: 500; }
.worded th, .worded td { overflow-wrap: anywhere; }
.figured th[scope=row] { white-space: nowrap; }
thead th { color: var(--ink-soft); font-weight: 400; font-size: .85rem; }
.n { text-align: right; white-space: nowrap; padding-right: 0; padding-left: .9rem; }
thead .n { white-space: normal; }

.charts {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
  gap: 1.5rem 2.5rem; margin: 0 0 1.5rem;
}
figure { margin: 0; }
figcaption strong { display: block; color: var(--ink); font-weight: 600; font-size: 1rem; }
svg { display: block; width: 100%; height: auto; margin-top: .5rem; font-family: inherit; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }

.bar { display: flex; height: 1.6rem; background: var(--wash); margin: .3rem 0 .9rem; outline: 1px solid var(--rule); }
.bar span { border-right: 1px solid var(--paper); }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .5em; vertical-align: -.05em; }
footer { margin-top: 4rem; border-top: 1px solid var(--rule); padding-top: 1rem; }

@media (max-width: 40rem) {
  body { padding-top: 1.75rem; }
  h1 { font-size: 1.6rem; }
  section { margin-top: 2.25rem; }
  .pairs div, .items > li { grid-template-columns: 1fr; }
  .figures { grid-template-columns: 1fr 1fr; gap: 1rem 1.25rem; }
  .figures dd { font-size: 1.35rem; }
  table { font-size: .85rem; }
  .n { padding-left: .5rem; }
}
@media print {
  @page { margin: 16mm; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  html { font-size: 9.5pt; }
  body { padding: 0; max-width: none; background: none; }
  .figures { grid-template-columns: repeat(4, 1fr); }
  .charts { grid-template-columns: 1fr 1fr; }
  section { margin-top: 1.5rem; padding-top: 1rem; }
  h2, h3, caption { break-after: avoid; }
  figure, tr, .items > li, .bar, .pairs div { break-inside: avoid; }
  .wide { overflow: visible; }
}
"""
