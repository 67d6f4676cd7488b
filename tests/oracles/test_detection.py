"""`detect_format` and `prompt_in_reasoning` on real templates, of vLLM 0.33.0 and llama.cpp."""

import pytest

from mini_vllm.chat_template.template import ChatTemplate
from mini_vllm.text.detect import detect_format
from mini_vllm.text.formats import is_format
from mini_vllm.text.reasoning import prompt_in_reasoning
from upstream.sources import SOURCES

VLLM = SOURCES / "examples"
LLAMA_CPP = SOURCES / "llama_cpp" / "models" / "templates"
# File, tool format, reasoning format, and whether a prompt shows the reasoning as begun or as over:
# by default, with thinking on, with thinking off. A dash is none.
TEMPLATES = """
apertus                apertus         -                -        -        -
deepseekr1             deepseek_v3     deepseek_r1      -        -        -
deepseekv3             deepseek_v3     -                -        -        -
deepseekv31            deepseek_v31    deepseek_v3      over     begun    over
functiongemma          functiongemma   -                -        -        -
gemma3_pythonic        pythonic        -                -        -        -
gemma4                 gemma4          gemma4           over     -        over
glm4                   glm45           -                -        -        -
granite                granite         -                -        -        -
granite_20b_fc         granite_20b_fc  -                -        -        -
hermes                 hermes          -                -        -        -
hunyuan_a13b           hunyuan_a13b    hunyuan_a13b     -        -        over
internlm2_tool         internlm        -                -        -        -
llama3.1_json          llama_json      -                -        -        -
llama3.2_json          llama_json      -                -        -        -
llama3.2_pythonic      pythonic        -                -        -        -
llama4_json            llama_json      -                -        -        -
llama4_pythonic        pythonic        -                -        -        -
mistral                mistral         -                -        -        -
mistral3               mistral         -                -        -        -
mistral_parallel       mistral         -                -        -        -
muse_glimmer           -               -                -        -        -
phi4_mini              phi4_mini_json  -                -        -        -
qwen3coder             qwen3_coder     -                -        -        -
toolace                pythonic        -                -        -        -
xlam_llama             xlam            -                -        -        -
xlam_qwen              xlam            -                -        -        -
Apertus-8B-Instruct    apertus         -                -        -        -
Apriel-1.6-15b-Thinker-fixed  jamba    -                -        -        -
Bielik-11B-v3.0-Instruct      hermes   qwen3            -        begun    -
ByteDance-Seed-OSS     seed_oss        seed_oss         -        -        -
Cohere2MoE             cohere_command4 cohere_command4  begun    begun    begun
CohereForAI-c4ai-command-r-plus-tool_use      -  -      -        -        -
CohereForAI-c4ai-command-r7b-12-2024-tool_use cohere_command3 cohere_command3 over - over
GLM-4.6                glm45           glm45            -        -        over
GLM-4.7-Flash          glm45           glm45            begun    begun    over
GigaChat3-10B-A1.8B    gigachat3       -                -        -        -
GigaChat3.1-10B-A1.8B  gigachat3       -                -        -        -
HuggingFaceTB-SmolLM3-3B      -        qwen3            -        -        over
Kimi-K2-Instruct       kimi_k2         -                -        -        -
Kimi-K2-Thinking       kimi_k2         kimi_k2          -        -        -
Kimi-K3                kimi_k3         kimi_k3          begun    begun    over
LFM2-8B-A1B            lfm2            -                -        -        -
LFM2.5-8B-A1B          lfm2            qwen3            -        -        -
LFM2.5-Instruct        -               qwen3            -        -        -
MiMo-VL                hermes          -                -        -        -
MiniMax-M1             -               -                -        -        -
MiniMax-M2             minimax_m2      minimax_m2       begun    begun    begun
MiniMax-M3             minimax_m3      minimax_m3       -        -        -
Mistral-Small-3.2-24B-Instruct-2506    mistral - -      -        -
NVIDIA-Nemotron-3-Nano-30B-A3B-BF16    qwen3_coder nemotron_v3 begun begun over
NVIDIA-Nemotron-Nano-v2       -        qwen3            begun    begun    begun
NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use hermes -  -        -        -
NousResearch-Hermes-3-Llama-3.1-8B-tool_use   hermes -  -        -        -
Qwen-QwQ-32B           hermes          qwen3            over     begun    over
Qwen-Qwen2.5-7B-Instruct      hermes   -                -        -        -
Qwen-Qwen3-0.6B        hermes          qwen3            -        -        over
Qwen3-Coder            qwen3_coder     -                -        -        -
Qwen3.5-4B             qwen3_coder     qwen3            begun    begun    over
Reka-Edge              hermes          qwen3            -        begun    -
Spark2.5               glm45           glm45            begun    begun    over
StepFun3.5-Flash       qwen3_coder     qwen3            begun    begun    begun
deepseek-ai-DeepSeek-R1-Distill-Llama-8B  deepseek_v3 deepseek_r1 begun begun begun
deepseek-ai-DeepSeek-R1-Distill-Qwen-32B  deepseek_v3 deepseek_r1 over begun over
deepseek-ai-DeepSeek-V3.1     deepseek_v31    deepseek_v3 over   begun    over
deepseek-ai-DeepSeek-V3.2     deepseek_v32    deepseek_v3 over   begun    over
deepseek-ai-DeepSeek-V4       deepseek_v4     deepseek_v3 over   begun    over
deepseek-ai-DeepSeek-V4-Flash-0731     deepseek_v4 deepseek_v3   over     begun    over
fireworks-ai-llama-3-firefunction-v2   phi4_mini_json -   -      -        -
google-gemma-2-2b-it   -               -                -        -        -
google-gemma-4-31B-it  gemma4          gemma4           over     -        over
google-gemma-4-31B-it-interleaved      gemma4 gemma4    over     -        over
ibm-granite-granite-3.3-2B-Instruct    granite granite_3_3 -     -        -
ibm-granite-granite-4.0       hermes   -                -        -        -
ibm-granite-granite-4.1       hermes   -                -        -        -
inclusionai-ling-3.0-flash    glm45    glm45            begun    begun    over
llama-cpp-deepseek-r1  deepseek_v3     deepseek_r1      begun    begun    begun
llama-cpp-rwkv-world   -               qwen3            -        begun    over
meetkai-functionary-medium-v3.1        -      -         -        -        -
meetkai-functionary-medium-v3.2        -      -         -        -        -
meta-llama-Llama-3.1-8B-Instruct       llama_json -     -        -        -
meta-llama-Llama-3.2-3B-Instruct       llama_json -     -        -        -
meta-llama-Llama-3.3-70B-Instruct      llama_json -     -        -        -
microsoft-Phi-3.5-mini-instruct        -      -         -        -        -
mistralai-Ministral-3-14B-Reasoning-2512      mistral mistral - - -
mistralai-Mistral-Nemo-Instruct-2407   mistral -        -        -        -
moonshotai-Kimi-K2     kimi_k2         -                -        -        -
muse-glimmer           -               -                -        -        -
openai-gpt-oss-120b    harmony         -                -        -        -
openbmb-MiniCPM5-1B    minicpm5        qwen3            -        begun    over
poolside-Laguna-S-2.1  glm45           glm45            begun    begun    over
poolside-Laguna-XS-2.1 glm45           glm45            over     begun    over
poolside-Laguna-XS.2   glm45           glm45            over     begun    over
tencent-Hy3   hy_v3:opensource   hy_v3:opensource       over     over     over
unsloth-Apriel-1.5     jamba           -                -        -        -
unsloth-mistral-Devstral-Small-2507    mistral -        -        -        -
upstage-Solar-Open-100B       -        -                -        -        -
"""
ROWS = [row.split() for row in TEMPLATES.strip().splitlines()]
SHOWN = {"-": None, "begun": True, "over": False}
ASKED = [{"role": "user", "content": "Hi"}]
pytestmark = pytest.mark.skipif(
    not LLAMA_CPP.is_dir() or not VLLM.is_dir(), reason="templates were not fetched: make oracles"
)


def text_of(name):
    ours = LLAMA_CPP / f"{name}.jinja"
    path = ours if ours.exists() else VLLM / f"tool_chat_template_{name}.jinja"
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_real_template_shows_its_formats_and_its_prompts_the_reasoning(row):
    name, tools, reasoning, *shown = row
    template = text_of(name)
    names = ["-" if one is None else one for one in detect_format(template)]
    # A template of a format that is not read shows none, and no other.
    assert names == [tools if is_format(tools) else "-", reasoning]
    if reasoning == "-":
        return
    made = ChatTemplate(template, bos_token="<s>", eos_token="</s>")
    for thinking, expected in zip(({}, True, False), shown, strict=True):
        said = thinking if thinking == {} else {"thinking": thinking, "enable_thinking": thinking}
        prompt = made.apply_chat_template(ASKED, add_generation_prompt=True, **said)
        assert prompt_in_reasoning(reasoning, prompt) is SHOWN[expected], prompt[-60:]


def test_every_real_template_has_a_row():
    files = {path.stem for path in LLAMA_CPP.glob("*.jinja")}
    files |= {path.stem.removeprefix("tool_chat_template_") for path in VLLM.glob("tool_*.jinja")}
    assert files == {row[0] for row in ROWS}
