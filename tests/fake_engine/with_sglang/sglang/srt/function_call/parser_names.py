TOOL_CALL_PARSER_NAMES = ["llama3", "qwen25", "hermes"]
