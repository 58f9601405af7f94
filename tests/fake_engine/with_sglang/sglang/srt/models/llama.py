"""One model file, as the real ones are: what stands last is what it is for."""


class LlamaForCausalLM:
    pass


EntryClass = [LlamaForCausalLM]
