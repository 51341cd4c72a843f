"""How each host is started without a person: with a home of its own, and a stand-in for its model.

What a host does beside the conversation (updates, telemetry) is switched off where the host has a setting for it. What is
left goes to a proxy on this machine, which refuses it.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KEY = "no-key"
MODEL = "gpt-5.2"


@dataclass
class Ground:
    """What a host is given to run with."""

    home: Path  # empty at the start
    peers: Path  # where hosts were fetched to
    model: str  # the stand-in's address
    command: list[str]  # starts the server, over stdio
    url: str | None  # where it is over HTTP, if that is to be used
    token: str | None

    def write(self, path, content):
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return str(file)

    @property
    def bearer(self):
        return {"Authorization": f"Bearer {self.token}"}

    def environment(self):
        """What a host gets of the environment: nothing of ours but where programs are."""
        node = self.peers / "node_modules" / ".bin"
        return {
            "PATH": f"{node}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.home),
            "HTTP_PROXY": self.model,
            "HTTPS_PROXY": self.model,
            "http_proxy": self.model,
            "https_proxy": self.model,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "DO_NOT_TRACK": "1",
        }


def claude_code(ground):
    server = {"command": ground.command[0], "args": ground.command[1:]}
    if ground.url:
        server = {"type": "http", "url": ground.url, "headers": ground.bearer}
    config = ground.write("mcp.json", {"mcpServers": {"stead": server}})
    program = ground.peers / "hosts/node_modules/@anthropic-ai/claude-code-linux-x64/claude"
    options = ["--mcp-config", config, "--strict-mcp-config", "--allowedTools", "mcp__stead", "--max-turns", "60"]
    return [program, "-p", "go", *options, "--output-format", "stream-json", "--verbose"], {
        "ANTHROPIC_BASE_URL": ground.model,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "MCP_CONNECTION_NONBLOCKING": "0",
        "ENABLE_TOOL_SEARCH": "false",
    }


def codex(ground, model="gpt-5.5"):
    server = f"command = {json.dumps(ground.command[0])}\nargs = {json.dumps(ground.command[1:])}"
    if ground.url:
        server = f'url = "{ground.url}"\nbearer_token_env_var = "STEAD_BEARER"'
    config = f"""
model = "{model}"
model_provider = "mock"
approval_policy = "never"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
apps = false
plugins = false
[model_providers.mock]
name = "mock"
base_url = "{ground.model}/v1"
wire_api = "responses"
env_key = "MOCK_KEY"
[mcp_servers.stead]
{server}
default_tools_approval_mode = "approve"
"""
    ground.write(".codex/config.toml", config)
    program = ground.peers / "hosts/node_modules/.bin/codex"
    return [program, "exec", "--skip-git-repo-check", "--json", "go"], {
        "CODEX_HOME": str(ground.home / ".codex"),
        "MOCK_KEY": KEY,
        "STEAD_BEARER": ground.token or "",
    }


def codex_with_scripts(ground):
    """The models of this year write a script for their calls."""
    return codex(ground, model="gpt-6.1-sol")


def gemini_cli(ground):
    server = {"command": ground.command[0], "args": ground.command[1:], "trust": True}
    if ground.url:
        server = {"type": "http", "url": ground.url, "headers": ground.bearer, "trust": True}
    settings = {
        "mcpServers": {"stead": server},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    ground.write(".gemini/settings.json", settings)
    program = ground.peers / "hosts-long/node_modules/.bin/gemini"
    return [program, "-p", "go", "--yolo", "-m", "gemini-2.5-pro"], {
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": ground.model,
    }


def opencode(ground):
    server = {"type": "local", "command": ground.command}
    if ground.url:
        server = {"type": "remote", "url": ground.url, "headers": ground.bearer, "oauth": False}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{ground.model}/v1", "apiKey": KEY},
        "models": {MODEL: {"modalities": {"input": ["text", "image"], "output": ["text"]}, "tool_call": True}},
    }
    config = {"provider": {"mock": provider}, "model": f"mock/{MODEL}", "small_model": f"mock/{MODEL}"}
    config |= {"mcp": {"stead": server}, "autoupdate": False, "share": "disabled", "enabled_providers": ["mock"]}
    program = ground.peers / "hosts-long/node_modules/opencode-linux-x64/bin/opencode"
    return [program, "run", "go", "--format", "json"], {
        "OPENCODE_CONFIG": ground.write("opencode.json", config),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


def qwen_code(ground):
    server = {"command": ground.command[0], "args": ground.command[1:], "trust": True}
    if ground.url:
        server = {"httpUrl": ground.url, "headers": ground.bearer, "trust": True}
    settings = {
        "mcpServers": {"stead": server},
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True, "disableUpdateNag": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        # Otherwise the model sees the tools' names only, and asks for each schema before a call.
        "tools": {"toolSearch": {"enabled": False}},
    }
    ground.write(".qwen/settings.json", settings)
    program = ground.peers / "hosts-long/node_modules/.bin/qwen"
    return [program, "-p", "go", "--yolo", "-m", MODEL], {
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{ground.model}/v1",
        "OPENAI_MODEL": MODEL,
    }


def copilot_cli(ground):
    server = {"type": "local", "command": ground.command[0], "args": ground.command[1:], "tools": ["*"]}
    if ground.url:
        server = {"type": "http", "url": ground.url, "headers": ground.bearer, "tools": ["*"]}
    ground.write(".copilot/mcp-config.json", {"mcpServers": {"stead": server}})
    program = ground.peers / "hosts-long/node_modules/.bin/copilot"
    options = ["--allow-all-tools", "--no-auto-update", "--disable-builtin-mcps", "--no-color"]
    return [program, "-p", "go", *options, "--model", MODEL], {
        "COPILOT_PROVIDER_BASE_URL": f"{ground.model}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": MODEL,
        "COPILOT_OFFLINE": "true",
    }


def python(environment, script):
    """A host that is a library: a small agent in Python that uses it."""

    def start(ground):
        program = ground.peers / environment / "bin/python"
        return [program, Path(__file__).parent / "agents" / script], library(ground)

    return start


def node(script):
    """A host that is a library: a small agent in JavaScript that uses it."""

    def start(ground):
        packages = ground.peers / "hosts-long"
        # A script finds packages only from where they are.
        copy = shutil.copy(Path(__file__).parent / "agents" / script, packages)
        return ["node", copy], library(ground)

    return start


def library(ground):
    variables = {
        "OPENAI_BASE_URL": f"{ground.model}/v1",
        "OPENAI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": ground.model,
        "GOOGLE_API_KEY": KEY,
        "MODEL": MODEL,
        "SERVER_COMMAND": json.dumps(ground.command),
    }
    if ground.url:
        variables |= {"SERVER_URL": ground.url, "SERVER_TOKEN": ground.token}
    return variables


@dataclass
class Host:
    """A host, and what it is known to do with a result."""

    title: str
    package: str  # where it was fetched to
    start: Callable
    adds: int = 0  # characters that it puts around a text, at most
    adds_to_errors: int = 0
    adds_to_images: int = 0  # the words beside an image
    says_errors: int = 1  # how often
    shows_images: bool = True
    cuts_pages: bool = False

    def version(self, peers):
        environment, _, name = self.package.partition("/")
        if name.startswith("node_modules/"):
            return json.loads((peers / self.package / "package.json").read_text())["version"]
        name = name.replace("-", "_")
        [found] = (peers / environment).glob(f"lib/python*/site-packages/{name}-*.dist-info")
        return found.name.removeprefix(f"{name}-").removesuffix(".dist-info")


HOSTS = {
    "claude-code": Host(
        "Claude Code", "hosts/node_modules/@anthropic-ai/claude-code", claude_code, adds_to_images=250
    ),
    "codex": Host(
        "Codex", "hosts/node_modules/@openai/codex", codex, adds=40, adds_to_errors=40, adds_to_images=40
    ),
    "codex-scripts": Host(
        "Codex, calls in scripts",
        "hosts/node_modules/@openai/codex",
        codex_with_scripts,
        adds=60,
        adds_to_errors=60,
        adds_to_images=60,
    ),
    "langchain-python": Host(
        "langchain-mcp-adapters", "langchain/langchain-mcp-adapters", python("langchain", "langchain_adapter.py")
    ),
    "gemini-cli": Host(
        "Gemini CLI",
        "hosts-long/node_modules/@google/gemini-cli",
        gemini_cli,
        adds=42,
        adds_to_errors=270,
        adds_to_images=120,
    ),
    "opencode": Host("opencode", "hosts-long/node_modules/opencode-ai", opencode),
    "qwen-code": Host(
        "Qwen Code",
        "hosts-long/node_modules/@qwen-code/qwen-code",
        qwen_code,
        adds_to_errors=310,
        adds_to_images=79,
        says_errors=2,
    ),
    "copilot-cli": Host(
        "Copilot CLI",
        "hosts-long/node_modules/@github/copilot",
        copilot_cli,
        adds_to_errors=20,
        shows_images=False,
    ),
    "langchain-js": Host(
        "@langchain/mcp-adapters",
        "hosts-long/node_modules/@langchain/mcp-adapters",
        node("langchain.mjs"),
        adds_to_errors=110,
    ),
    "openai-agents": Host(
        "OpenAI Agents", "openai-agents/openai-agents", python("openai-agents", "openai_agents.py")
    ),
    "pydantic-ai": Host(
        "pydantic-ai",
        "pydantic-ai/pydantic-ai-slim",
        python("pydantic-ai", "pydantic_agent.py"),
        adds_to_errors=12,
        adds_to_images=23,
    ),
    "ai-sdk": Host("AI SDK", "hosts-long/node_modules/@ai-sdk/mcp", node("ai_sdk.mjs")),
    "mastra": Host(
        "Mastra",
        "hosts-long/node_modules/@mastra/mcp",
        node("mastra.mjs"),
        adds=56,
        adds_to_errors=12,
        shows_images=False,
    ),
    # It has no place for images: their bytes come as base64.
    "google-adk": Host(
        "Google ADK",
        "google-adk/google-adk",
        python("google-adk", "adk.py"),
        adds=62,
        adds_to_errors=62,
        adds_to_images=480,
        shows_images=False,
    ),
}
