"""The APIs of models: what a request says, and how an answer is spelled, with and without streaming."""

import json
import re
from dataclasses import dataclass, field

FAREWELL = "done"


@dataclass
class Result:
    """What the model receives for one call."""

    text: str = ""
    images: list[str] = field(default_factory=list)  # their types
    is_error: bool | None = None  # where the API can say so

    def add(self, part):
        """Takes in one part of a result, as the four APIs spell it."""
        if isinstance(part, str):
            # Blocks of text are lines apart.
            self.text += "\n" * (self.text != "" and self.text[-1] != "\n") + part
        elif isinstance(part, list):
            for one in part:
                self.add(one)
        elif not isinstance(part, dict):
            raise ValueError(f"a part of a result is {part!r}")
        elif part.get("type") in ("text", "input_text", "output_text"):
            self.add(part["text"])
        elif part.get("type") == "image":
            self.images.append(part["source"]["media_type"])
        elif part.get("type") in ("image_url", "input_image"):
            url = part["image_url"]
            self.images.append(re.match(r"data:([^;,]+)", url if isinstance(url, str) else url["url"])[1])
        elif "inlineData" in part:
            self.images.append(part["inlineData"]["mimeType"])
        elif "text" in part:
            self.add(part["text"])
        else:
            raise ValueError(f"a part of a result is {json.dumps(part)[:300]}")

    def add_images(self, parts):
        """Takes in the images of a message that follows a result: some APIs allow none in the result itself."""
        for part in parts if isinstance(parts, list) else []:
            if part.get("type") in ("image", "image_url", "input_image") or "inlineData" in part:
                self.add(part)


@dataclass
class Asked:
    """A request, in the words of no API."""

    system: str
    tools: dict[str, str]  # name -> description
    results: list[Result]
    may_search: bool = False  # for tools of ours that were not sent along


class Messages:
    """Anthropic's messages."""

    path = re.compile(r"/v1/messages$")

    @staticmethod
    def asked(body):
        results = []
        for message in body["messages"]:
            content = message["content"]
            for part in content if isinstance(content, list) else []:
                if part["type"] == "tool_result":
                    results.append(Result(is_error=part.get("is_error", False)))
                    results[-1].add(part.get("content", ""))
                elif part["type"] == "image" and results:
                    results[-1].add(part)
        system = body.get("system", "")
        parts = [system] if isinstance(system, str) else [part["text"] for part in system]
        # What a host says beside the system prompt: in the messages before the model's first answer.
        for message in body["messages"]:
            if message["role"] == "assistant":
                break
            content = message["content"]
            parts += [content] if isinstance(content, str) else [p["text"] for p in content if p["type"] == "text"]
        tools = {tool["name"]: tool.get("description", "") for tool in body.get("tools", [])}
        return Asked("\n".join(parts), tools, results)

    @staticmethod
    def reply(body, number, call):
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": FAREWELL}
        whole = {"type": "text", "text": FAREWELL}
        if call:
            name, arguments = call
            whole = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}
            block = whole | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        reason = "tool_use" if call else "end_turn"
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"]}
        message |= {"content": [], "stop_reason": None, "stop_sequence": None}
        message["usage"] = {"input_tokens": 1, "output_tokens": 1}
        if not body.get("stream"):
            return message | {"content": [whole], "stop_reason": reason}
        return [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]


class Responses:
    """OpenAI's responses."""

    path = re.compile(r"/responses$")
    # A model that makes its calls in a script of its own sees what the script shows it.
    LOOK = 'text(ALL_TOOLS.filter((tool) => tool.name.includes("stead")));'
    CALL = "const result = await tools.{name}({arguments});\n" + (
        'for (const block of result.content) block.type === "image" ? image(block) : text(block.text);'
    )

    @staticmethod
    def asked(body):
        results, system, offered = [], [body.get("instructions") or ""], list(body.get("tools") or [])
        for item in body["input"] if isinstance(body["input"], list) else []:
            kind = item.get("type")
            if kind in ("additional_tools", "tool_search_output"):
                offered += item["tools"]
            elif kind == "custom_tool_call_output" and item["call_id"].startswith("search"):
                found = item["output"][-1]["text"]
                offered += [{"type": "function", **tool} for tool in json.loads(found)]
            elif kind in ("function_call_output", "custom_tool_call_output"):
                results.append(Result())
                results[-1].add(item["output"])
            elif results:
                results[-1].add_images(item.get("content"))
            elif "content" in item:
                said = Result()
                said.add(item["content"])
                system.append(said.text)
        tools, may_search = {}, False
        for tool in offered:
            if tool["type"] == "function":
                tools[tool["name"]] = tool.get("description") or ""
            elif tool["type"] == "namespace":
                system.append(tool.get("description") or "")
                for inner in tool["tools"]:
                    tools[f"{tool['name']}/{inner['name']}"] = inner.get("description") or ""
            elif tool["type"] == "tool_search":
                system.append(tool["description"])
                may_search = "stead" in tool["description"]
        may_search = may_search or Responses.writes_scripts(body)
        return Asked("\n".join(system), tools, results, may_search)

    @staticmethod
    def writes_scripts(body):
        return any(item.get("type") == "additional_tools" for item in body["input"] if isinstance(item, dict))

    @staticmethod
    def script(number, code, purpose):
        item = {"type": "custom_tool_call", "id": f"ctc_{number}", "call_id": f"{purpose}_{number}"}
        return item | {"status": "completed", "namespace": "functions", "name": "exec", "input": code}

    @staticmethod
    def search(body, number, words):
        """Looks for a tool that the host keeps back until it is asked for."""
        item = {"type": "tool_search_call", "call_id": f"search_{number}", "execution": "client"}
        item |= {"status": "completed", "arguments": {"query": words, "limit": 20}}
        if Responses.writes_scripts(body):
            item = Responses.script(number, Responses.LOOK, "search")
        return Responses.answer(body, number, item)

    @staticmethod
    def reply(body, number, call):
        if call and Responses.writes_scripts(body):
            code = Responses.CALL.format(name=call[0], arguments=json.dumps(call[1]))
            item = Responses.script(number, code, "call")
        elif call:
            namespace, _, name = call[0].rpartition("/")
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
            item |= {"name": name, "arguments": json.dumps(call[1])} | ({"namespace": namespace} if namespace else {})
        else:
            text = {"type": "output_text", "text": FAREWELL, "annotations": []}
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
            item["content"] = [text]
        return Responses.answer(body, number, item)

    @staticmethod
    def answer(body, number, item):
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        response = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": body["model"]}
        response |= {"status": "completed", "output": [item], "usage": usage, "parallel_tool_calls": False}
        response |= {"tools": [], "tool_choice": "auto"}
        if not body.get("stream"):
            return response
        events = [
            {"type": "response.created", "response": response | {"status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        ]
        return [event | {"sequence_number": at} for at, event in enumerate(events)]


class Chat:
    """OpenAI's chat completions."""

    path = re.compile(r"/chat/completions$")

    @staticmethod
    def asked(body):
        results, system = [], []
        for message in body["messages"]:
            if message["role"] == "tool":
                results.append(Result())
                results[-1].add(message["content"] or "")
            elif results:
                results[-1].add_images(message.get("content"))
            elif message["role"] != "assistant":
                said = Result()
                said.add(message["content"] or "")
                system.append(said.text)
        functions = [tool["function"] for tool in body.get("tools") or [] if tool["type"] == "function"]
        tools = {function["name"]: function.get("description") or "" for function in functions}
        return Asked("\n".join(system), tools, results)

    @staticmethod
    def reply(body, number, call):
        message = {"role": "assistant", "content": FAREWELL}
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            calls = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        answer = {"id": f"chat_{number}", "created": 0, "model": body["model"]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        end = {"index": 0, "finish_reason": "tool_calls" if call else "stop"}
        if not body.get("stream"):
            return answer | {"object": "chat.completion", "choices": [end | {"message": message}], "usage": usage}
        answer["object"] = "chat.completion.chunk"
        start = {"index": 0, "delta": message, "finish_reason": None}
        return [
            answer | {"choices": [start]},
            answer | {"choices": [end | {"delta": {}}], "usage": usage},
            "[DONE]",
        ]


class Gemini:
    """Gemini's generateContent."""

    path = re.compile(r":(stream)?[gG]enerateContent$")

    @staticmethod
    def text(response):
        """The text of a response. The API wants an object: one with a single text is that text."""
        values = list(response.values())
        if len(values) == 1 and isinstance(values[0], str):
            return values[0]
        return json.dumps(response, ensure_ascii=False)

    @staticmethod
    def asked(body):
        results, system = [], []
        for content in [body.get("systemInstruction") or {}, *body["contents"]]:
            for part in content.get("parts", []):
                if "functionResponse" in part:
                    response = part["functionResponse"]
                    results.append(Result(text=Gemini.text(response["response"])))
                    results[-1].add(response.get("parts", []))
                elif results:
                    results[-1].add_images([part])
                elif "text" in part:
                    system.append(part["text"])
        groups = [tool.get("functionDeclarations", []) for tool in body.get("tools", [])]
        tools = {one["name"]: one.get("description", "") for group in groups for one in group}
        return Asked("\n".join(system), tools, results)

    @staticmethod
    def reply(body, number, call):
        part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": FAREWELL}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stand-in"}
        return [answer] if body["stream"] else answer


APIS = (Messages, Responses, Chat, Gemini)
