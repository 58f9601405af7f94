REASONING_PARSER_NAMES = ["deepseek-r1", "qwen3"]
