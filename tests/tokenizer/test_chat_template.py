"""Chat templates: what they render, what they may not do, and where they are found."""

import asyncio
import gc
import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from mini_vllm.chat_template import worker as template_worker
from mini_vllm.chat_template.files import (
    find_chat_template,
    load_chat_template_from_config,
    load_chat_template_from_file,
)
from mini_vllm.chat_template.process import WorkerProcess
from mini_vllm.chat_template.template import ChatMessage, ChatTemplate, TemplateLimits
from mini_vllm.chat_template.worker import Renderer, answer
from mini_vllm.tokenizer_errors import (
    ChatTemplateError,
    CorruptModelFile,
    TokenizerFileNotFound,
)


def turns(start, middle, end):
    """A template that frames each turn so."""
    return (
        f"{{% for m in messages %}}{start}{{{{ m['role'] }}}}{middle}{{{{ m['content'] }}}}{end}"
        f"{{% endfor %}}{{% if add_generation_prompt %}}{start}assistant{middle}{{% endif %}}"
    )


LLAMA = turns("<|start_header_id|>", "<|end_header_id|>{{ '\\n\\n' }}", "<|eot_id|>")
CHATML = turns("<|im_start|>", "{{ '\\n' }}", "<|im_end|>{{ '\\n' }}")
TALK = [ChatMessage.user("Hello"), ChatMessage.assistant("Hi"), {"role": "user", "content": "Bye"}]
HI = [ChatMessage.user("Hi")]


# Beyond any load of the machine: a test of another limit, or of none, never runs into it.
UNHURRIED = TemplateLimits(seconds=60)


@pytest.fixture
def make():
    """`ChatTemplate`, closed at the end of the test."""
    made = []

    def make(template, *, limits=UNHURRIED, **kwargs):
        made.append(ChatTemplate(template, limits=limits, **kwargs))
        return made[-1]

    yield make
    for template in made:
        template.close()


@pytest.fixture(scope="module")
def chatml():
    template = ChatTemplate(CHATML, limits=UNHURRIED)
    yield template
    template.close()


def render(template, messages=(), **variables):
    """Render as the worker does, in this process."""
    variables = {"messages": [asdict(message) for message in messages], **variables}
    return answer(Renderer(template, 10_000), variables)["text"]


# The rest of what a worker is set up with.
NOTHING_ELSE = {"special_tokens": [], "variables": {}}


def worker(template):
    return template._process._process.pid


def gone(pid):
    """Whether a process has ended, be it that nobody has collected it."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


# What it renders.


def test_chat_message_creation():
    assert ChatMessage.system("a") == ChatMessage("system", "a")
    assert ChatMessage.user("b") == ChatMessage(role="user", content="b")
    assert ChatMessage.assistant("c").role == "assistant"
    assert ChatMessage.assistant("c").content == "c"


SIMPLE = (
    "{% for message in messages %}\n"
    "{{ message.role }}: {{ message.content }}\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}\n"
    "assistant: {% endif %}"
)
KNOWN = (
    "{% if bos_token is defined %}{{ bos_token }}{% endif %}{{ eos_token is defined }}"
    "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ pad_token }}"
)
TOKENS = "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
PAD = {"variables": {"pad_token": "<pad>"}}
MORE = {"bos_token": "<b>", "pad_token": "", "tools": [{}]}
BRIEF = [ChatMessage.system("Be brief"), ChatMessage.user("Hi")]


@pytest.mark.parametrize(
    ("template", "options", "messages", "prompted", "variables", "expected"),
    [
        (SIMPLE, {}, BRIEF, True, {}, "system: Be brief\nuser: Hi\nassistant: "),
        (SIMPLE, {}, BRIEF, False, {}, "system: Be brief\nuser: Hi\n"),
        (TOKENS, {"bos_token": "<s>", "eos_token": "</s>"}, HI, False, {}, "<s>Hi</s>"),
        (KNOWN, PAD, [], False, {}, "FalseTrueTrueFalse<pad>"),
        (KNOWN, PAD, [], True, MORE, "<b>FalseFalseTrueTrue"),
        (CHATML, {}, [], False, {}, ""),
        (CHATML, {}, TALK, True, {},
            "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi<|im_end|>\n"
            "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"),
        (LLAMA, {}, TALK[:2], True, {},
            "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n"),
    ],
)  # fmt: skip
def test_what_it_renders(make, template, options, messages, prompted, variables, expected):
    # A trusted template is rendered in this process.
    for trusted in (False, True):
        made = make(template, trusted=trusted, **options)
        assert made.apply_chat_template(messages, prompted, **variables) == expected
        assert (made._process is None) is trusted


def test_the_format_of_models_without_a_template():
    template = ChatTemplate.simple()
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [*HI, ChatMessage.user(parts), {"role": "assistant", "content": None}]
    assert template.apply_chat_template(HI, True) == "user: Hi\nassistant: "
    assert template.apply_chat_template(messages) == "user: Hi\nuser: ab\nassistant: \n"
    template.close()


def test_tojson_is_plain():
    value = {"b": "<é🙂&'>", "a": [1, None]}
    template = (
        "{{ x | tojson }}\n{{ x | tojson(indent=2, sort_keys=True) }}\n"
        "{{ x | tojson(separators=(',', ':'), ensure_ascii=True) }}"
    )
    expected = [
        json.dumps(value, ensure_ascii=False),
        json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True),
        json.dumps(value, separators=(",", ":")),
    ]
    assert render(template, x=value) == "\n".join(expected)


def test_loop_controls_python_isms_and_the_date():
    assert render(
        "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}"
        "{% if i == 4 %}{% break %}{% endif %}{{ '%s-%d ' % ('x', i) }}{% endfor %}"
    ) == ("x-0 x-2 x-3 ")
    assert render("{{ messages[::-1][0].content.split('i')[0] }}", HI) == "H"
    before = datetime.now().strftime("%Y-%m-%d")
    text = render("{{ strftime_now('%Y-%m-%d') }}")
    assert text in (before, datetime.now().strftime("%Y-%m-%d"))


def test_generation_blocks_are_text_like_any_other_and_keep_their_variables():
    text = render(
        "{% set x = 1 %}{% for m in messages %}[{{ m.role }}]"
        "{% if m.role == 'assistant' %}"
        "{% generation %}{% set x = 2 %}{{ m.content }}{{ x }}é{% endgeneration %}"
        "{% else %}{{ m.content }}{% endif %}{{ x }}{% endfor %}",
        messages=TALK[:2],
    )
    assert text == "[user]Hello1[assistant]Hi2é1"


def test_reasoning_has_several_names_and_what_is_none_is_left_out(make):
    """As in transformers 5.23."""
    template = make(
        "{% for m in messages %}{{ m.thinking }}|{{ m.reasoning_content }}|{{ m.reasoning }};"
        "{% endfor %}"
    )
    turns = [
        {"role": "assistant", "content": "", **reasoning}
        for reasoning in (
            {}, {"reasoning": "a"}, {"thinking": "b"}, {"reasoning_content": "c"},
            {"reasoning": "d", "thinking": None}, {"reasoning_content": "", "thinking": "e"},
            {"reasoning_content": "f", "thinking": "g", "reasoning": "h"},
        )
    ]  # fmt: skip
    text = template.apply_chat_template(turns)
    assert text == "||;a|a|a;b|b|;c|c|;d|d|d;e||;g|f|h;"
    assert turns[1] == {"role": "assistant", "content": "", "reasoning": "a"}
    bare = make("{{ messages[0].content is defined }}{{ messages[0].name is none }}")
    assert (
        bare.apply_chat_template([{"role": "user", "content": None, "name": None}]) == "FalseFalse"
    )


@pytest.mark.parametrize("content", ["\ud800", "a\udfffb", "\ud83d\ude42", "\x00\u2028\ufffd"])
def test_odd_characters_arrive_as_they_were(chatml, make, content):
    for template in (chatml, make(CHATML, trusted=True)):
        text = template.apply_chat_template([ChatMessage.user(content)])
        assert text == f"<|im_start|>user\n{content}<|im_end|>\n"


# What goes wrong.


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("\n{{ nothing.at_all }}", "line 2: 'nothing' is undefined"),
        ("a\n\n{% for %}", "line 3: Expected an expression"),
        ("{{ 1 | nofilter }}", "line 1: No filter named 'nofilter'"),
        ("{% macro f(x) %}\n{{ x.y.z }}{% endmacro %}\n{{ f(1) }}", "line 2: 'int object' has no"),
        ("\n{{ 1 / 0 }}", "line 2: ZeroDivisionError: division by zero"),
        ("{% include 'x' %}", "line 1: TypeError: no loader"),
        ("{% for i in [1] %}" * 30 + "{% endfor %}" * 30, "too many statically nested blocks"),
    ],
)
def test_errors_name_the_line(template, message):
    assert message in answer(Renderer(template, 10_000), {})["error"]


@pytest.mark.parametrize("trusted", [False, True])
def test_errors_and_raise_exception_arrive_unchanged(make, trusted):
    template = make(
        "\n{{ nothing.at_all if not messages else "
        "raise_exception('Roles must alternate: ' ~ messages[0].role) }}",
        trusted=trusted,
    )
    for messages, message in (
        (HI, "Roles must alternate: user"),
        ([], "line 2: 'nothing' is undefined"),
    ):
        with pytest.raises(ChatTemplateError) as caught:
            template.apply_chat_template(messages)
        assert str(caught.value) == message


def test_a_broken_template_is_found_by_use_and_by_validate(make):
    broken = make("{% if %}")
    for use in (broken.validate, lambda: broken.apply_chat_template([])):
        with pytest.raises(ChatTemplateError, match="line 1"):
            use()
    fine = make("{{ raise_exception('not run') }}")
    fine.validate()


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([{"role": "user", "content": "a"}, {"x": {1}}], r"messages\[1\]: .* type set is not JSON"),
        (["Hi"], r"messages\[0\] must be a dict or a ChatMessage, not str"),
        ("Hi", "messages must be a list, not str"),
        ({"role": "user"}, "messages must be a list, not dict"),
        (None, "messages must be a list, not NoneType"),
    ],
)
def test_messages_of_the_wrong_kind_are_named(chatml, messages, message):
    with pytest.raises(ChatTemplateError, match=message):
        chatml.apply_chat_template(messages)


def test_variables_that_are_not_json_are_named(chatml):
    circle, deep, deeper = [], [], []
    circle.append(circle)
    for _ in range(300):
        deep = [deep]
    for _ in range(100_000):
        deeper = [deeper]
    wrong = {"a": b"x", "b": circle, "c": deep, "d": deeper, "e": {(1, 2): 3}}
    for name, value in wrong.items():
        with pytest.raises(ChatTemplateError, match=rf"^{name}\b.*: "):
            chatml.apply_chat_template([], **{name: value})


@pytest.mark.parametrize(
    "template",
    [
        "''.__class__.__mro__", "messages.__class__.__base__.__subclasses__()",
        "raise_exception.__globals__['sys']", "self.__init__.__globals__.x", "messages.append(1)",
        "messages[0].update(role='system')", "messages[0].pop('role')",
    ],
)  # fmt: skip
def test_the_sandbox_holds(template):
    messages = [{"role": "user", "content": "Hi"}]
    reply = answer(Renderer(f"{{{{ {template} }}}}", 10_000), {"messages": messages})
    assert "is unsafe" in reply["error"]
    assert messages == [{"role": "user", "content": "Hi"}]


# What it survives.

TIGHT = TemplateLimits(template_size=200_000, output_size=10_000, seconds=60, memory=80 << 20)
HURRIED = TemplateLimits(seconds=0.2)
LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
# One template, whose variable says what it does: a new process is compiled once a row.
HOSTILE = {
    "memory, folded": ("{{ 'a' * 10**10 }}", "memory limit of 83886080 bytes"),
    "memory": ("{% for i in messages %}{{ 'a' * (10**10 + loop.index) }}{% endfor %}", "memory"),
    "memory, doubling": ("{% set n = namespace(x='a') %}"
        "{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}", "memory"),
    "huge format": ("{{ '%1000000000d' | format(1) }}", "memory"),
    "list": ("{{ messages | batch(10**9, 0) | list }}", "memory"),
    "a character too many": ("{{ 'a' * (10_000 + messages | length) }}", "limit of 10000 char"),
    "one huge piece": ("{{ 'a' * (2_000_000 + messages | length) }}", "output"),
    "many pieces": ("{% for i in range(99999) %}{{ i }} {% endfor %}", "output"),
    "recursion": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "too deeply"),
    "range": ("{% for i in range(10**9) %}{% endfor %}", "Range too big"),
    "huge message": ("{{ raise_exception('a' * 10**6) }}", "^a{2000}$"),
}  # fmt: skip
HOSTILE_TO_COMPILE = {
    "power": ("{{ 10 ** (10 ** 10) }}", HURRIED, r"time limit of 0\.2 s"),
    "parentheses": ("{{ " + "(" * 90_000 + " }}", TIGHT, "too deeply"),
    "lists": ("{{ " + "[" * 90_000 + "]" * 90_000 + " }}", TIGHT, "too deeply"),
    "signs": ("{{ " + "-" * 190_000 + "1 }}", TIGHT, "too deeply"),
    "blocks": ("{% if 1 %}" * 9_000 + "{% endif %}" * 9_000, TIGHT, "too deeply"),
}


def test_a_hostile_render_is_stopped_and_the_next_one_works(make, chatml):
    cases = "".join(f"{{% elif case == '{case}' %}}{body}" for case, (body, _) in HOSTILE.items())
    template = make("{% if not case %}{{ 'a' * 10_000 }}" + cases + "{% endif %}", limits=TIGHT)
    for case, (_, message) in HOSTILE.items():
        with pytest.raises(ChatTemplateError, match=message):
            template.apply_chat_template(HI, case=case)
        assert template.apply_chat_template(HI) == "a" * 10_000
    assert chatml.apply_chat_template(HI) == "<|im_start|>user\nHi<|im_end|>\n"


def test_the_spans_of_special_tokens_count_as_output(make):
    template = make("{{ 'x' * (9_999 + messages | length) }}", special_tokens="x", limits=TIGHT)
    with pytest.raises(ChatTemplateError, match="output"):
        template.apply_chat_template(HI)


def test_a_trusted_template_keeps_to_the_limit_of_its_output(make):
    template = make("{{ messages[0].content }}", limits=TIGHT, trusted=True)
    assert template.apply_chat_template([ChatMessage.user("a" * 10_000)]) == "a" * 10_000
    with pytest.raises(ChatTemplateError, match="output"):
        template.apply_chat_template([ChatMessage.user("a" * 10_001)])


def test_a_render_without_end_is_stopped_and_the_next_one_works(make):
    template = make("{% if messages %}" + LOOPS + "{% endif %}fine", limits=HURRIED)
    with pytest.raises(ChatTemplateError, match=r"time limit of 0\.2 s"):
        template.apply_chat_template(HI)
    template.limits = UNHURRIED
    assert template.apply_chat_template([]) == "fine"


@pytest.mark.parametrize("name", HOSTILE_TO_COMPILE)
def test_a_template_that_is_hostile_to_compile_is_stopped(make, name):
    template, limits, message = HOSTILE_TO_COMPILE[name]
    with pytest.raises(ChatTemplateError, match=message):
        make(template, limits=limits).validate()


def test_a_huge_template_is_refused_at_once():
    with pytest.raises(ChatTemplateError, match="200001 characters, over its limit of 200000"):
        ChatTemplate("a" * 200_001, limits=TIGHT)


def test_messages_that_do_not_fit_into_the_memory(make):
    template = make(CHATML, limits=TemplateLimits(seconds=60, memory=40 << 20))
    # The first fits as bytes but not as text too; of the second not even all is read.
    for size in (10_000_000, 20_000_000):
        with pytest.raises(ChatTemplateError, match="memory limit"):
            template.apply_chat_template([ChatMessage.user("a" * size)])
    assert template.apply_chat_template([]) == ""


def test_the_time_limit_counts_per_call(make, monkeypatch):
    """The parent gives each answer the whole time, and the worker's alarm is set for each."""
    template, given = make("x"), []
    exchange = WorkerProcess.exchange

    def noted(process, data, seconds):
        given.append(seconds)
        return exchange(process, data, seconds)

    template.validate()
    monkeypatch.setattr(WorkerProcess, "exchange", noted)
    assert [template.apply_chat_template([]) for _ in range(3)] == ["x"] * 3
    assert given == [UNHURRIED.seconds] * 3
    assert json.loads(template._setup)["seconds"] == UNHURRIED.seconds + 1


def test_the_alarm_is_off_between_calls(monkeypatch):
    alarms, out = [], io.BytesIO()
    setup = {"template": "x", "output_size": 9, "memory": 1 << 30, "seconds": 7, "reply_size": 99}
    setup |= NOTHING_ELSE
    frames = [json.dumps(frame).encode() for frame in (setup, {}, None)]
    asked = b"".join(len(frame).to_bytes(8, "big") + frame for frame in frames)
    monkeypatch.setattr(template_worker.sys, "stdin", SimpleNamespace(buffer=io.BytesIO(asked)))
    monkeypatch.setattr(template_worker.sys, "stdout", SimpleNamespace(buffer=out))
    monkeypatch.setattr(template_worker, "limit_self", lambda memory: None)
    monkeypatch.setattr(signal, "setitimer", lambda which, seconds: alarms.append(seconds))
    monkeypatch.setattr(signal, "signal", lambda number, handler: alarms.append(handler))
    template_worker.main()
    assert alarms == [signal.SIG_DFL, 7, 0, 7, 0]
    assert out.getvalue().count(b'"text"') == 2


def test_a_worker_that_nobody_is_left_to_stop_ends_by_its_alarm():
    setup = {"template": LOOPS, "output_size": 9, "memory": 1 << 30, "seconds": 0.05}
    setup |= {"reply_size": 99, **NOTHING_ELSE}
    frames = [json.dumps(frame).encode() for frame in (setup, {})]
    command = [sys.executable, "-I", template_worker.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        process.stdin.writelines(len(frame).to_bytes(8, "big") + frame for frame in frames)
        process.stdin.flush()
        assert process.wait(60) == -signal.SIGALRM


# One process, many callers.


def test_threads_share_a_template(chatml):
    def talk(name):
        for turn in range(30):
            content = f"{name}.{turn}" * 500
            text = chatml.apply_chat_template([ChatMessage.user(content)])
            assert text == f"<|im_start|>user\n{content}<|im_end|>\n"
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(talk, range(8)))


def test_inside_a_running_event_loop(chatml):
    async def both():
        inline = chatml.apply_chat_template([], True)
        return inline, await asyncio.to_thread(chatml.apply_chat_template, [], True)

    assert asyncio.run(both()) == ("<|im_start|>assistant\n",) * 2


def test_a_worker_killed_while_idle_is_replaced(make):
    template = make("x")
    template.validate()
    pid = worker(template)
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: gone(pid))
    assert template.apply_chat_template([]) == "x"
    assert worker(template) != pid


@pytest.fixture
def once_sent(monkeypatch):
    """Do something once, when a question has been sent and its answer has not been read."""

    def once_sent(do):
        receive = WorkerProcess._receive

        def first(process, *args):
            monkeypatch.setattr(WorkerProcess, "_receive", receive)
            do()
            return receive(process, *args)

        monkeypatch.setattr(WorkerProcess, "_receive", first)

    return once_sent


def test_a_worker_killed_at_work_is_named(make, once_sent):
    template = make(LOOPS)
    template.validate()
    once_sent(lambda: os.kill(worker(template), signal.SIGKILL))
    with pytest.raises(ChatTemplateError, match="process ended by signal 9"):
        template.apply_chat_template([])


class Interrupt(BaseException):
    pass


def test_an_interrupted_call_leaves_no_answer_behind(make, once_sent):
    def interrupt():
        raise Interrupt

    template = make("{{ 'late' if messages else 'fine' }}")
    template.validate()
    once_sent(interrupt)
    with pytest.raises(Interrupt):
        template.apply_chat_template(HI)
    assert template.apply_chat_template([]) == "fine"


def test_no_process_and_no_descriptor_is_left(make):
    def descriptors():
        return len(os.listdir("/dev/fd"))

    make("x").validate()
    gc.collect()
    before = descriptors()
    dropped, closed = ChatTemplate("x"), make("{{ x.y }}")
    dropped.validate()
    with pytest.raises(ChatTemplateError):
        closed.apply_chat_template([])
    pids = [worker(dropped), worker(closed)]
    del dropped
    gc.collect()
    closed.close()
    closed.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert descriptors() == before


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs procfs")
def test_the_worker_inherits_neither_secrets_nor_descriptors(make, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    template = make("x")
    template.validate()
    assert sorted(os.listdir(f"/proc/{worker(template)}/fd")) == ["0", "1", "2"]
    assert b"secret" not in Path(f"/proc/{worker(template)}/environ").read_bytes()
    os.close(reader)
    os.close(writer)


def run_script(body):
    """Run code in a process that has a template `t`; return the process and its worker's pid."""
    head = (
        "import os, signal, sys, threading\n"
        "from mini_vllm.chat_template.process import WorkerProcess\n"
        "from mini_vllm.chat_template.template import ChatTemplate, TemplateLimits\n"
        f"SLOW = '{{% if messages %}}{LOOPS}{{% endif %}}fine'\n"
        "t = ChatTemplate(SLOW, limits=TemplateLimits(seconds=60))\n"
        "t.validate()\n"
        "pid = t._process._process.pid\n"
        "print(pid, flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + body],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done, int(done.stdout.split()[0])


def test_a_forked_process_uses_a_worker_of_its_own():
    """Forked in the middle of a call, and again when the template is idle."""
    done, pid = run_script(
        "begun, exchange = threading.Event(), WorkerProcess.exchange\n"
        "def noted(*args):\n"
        "    begun.set()\n"
        "    return exchange(*args)\n"
        "def slow():\n"
        "    try: t.apply_chat_template([{}])\n"
        "    except Exception as error: print(error, flush=True)\n"
        "WorkerProcess.exchange = noted\n"
        "thread = threading.Thread(target=slow)\n"
        "thread.start()\n"
        "begun.wait()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    assert t.apply_chat_template([]) == 'fine'\n"
        "    assert t._process._process.pid != pid\n"
        "    sys.exit(7)\n"
        "assert os.waitpid(child, 0)[1] == 7 << 8\n"
        "os.kill(pid, signal.SIGKILL)\n"
        "thread.join()\n"
        "t.validate()\n"
        "pid = t._process._process.pid\n"
        "child = os.fork()\n"
        "if not child: sys.exit(8)\n"
        "assert os.waitpid(child, 0)[1] == 8 << 8\n"
        "t.validate()\n"
        "assert t._process._process.pid == pid\n"
        "print('done')\n"
    )
    assert done.returncode == 0, done.stderr
    ended = "the template's process ended by signal 9 (Killed)"
    assert done.stdout.splitlines()[1:] == [ended, "done"]
    assert gone(pid)


@pytest.mark.parametrize("end", ["sys.exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_the_worker_does_not_outlive_its_parent(end):
    _, pid = run_script(end)
    assert wait_until(lambda: gone(pid))


# Where templates are found.


def write(folder, **files):
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("__", ".")).write_bytes(text.encode())


def test_load_from_config(tmp_path):
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    for config, found in (
        ({"chat_template": "é\\n ", "bos_token": "<s>"}, "é\\n "),
        ({"bos_token": "<s>"}, None),
        ({"chat_template": None}, None),
        ({"chat_template": named}, "d"),
        ({"chat_template": named[:1]}, None),
    ):
        write(tmp_path, config__json=config)
        assert load_chat_template_from_config(tmp_path / "config.json") == found
    assert load_chat_template_from_config(tmp_path / "missing.json") is None


def test_load_from_file_is_verbatim(tmp_path):
    path = tmp_path / "x.jinja"
    path.write_bytes("  {{ 'a\\n' }}\r\n\n é".encode())
    assert load_chat_template_from_file(path) == "  {{ 'a\\n' }}\r\n\n é"
    with pytest.raises(TokenizerFileNotFound):
        load_chat_template_from_file(tmp_path / "y.jinja")
    path.write_bytes(b"ab\xff")
    with pytest.raises(CorruptModelFile) as caught:
        load_chat_template_from_file(path)
    assert caught.value.offset == 2


def test_files_over_the_limit(tmp_path):
    path = tmp_path / "x.jinja"
    for content in ("a" * ((1 << 20) + 1), "🙂" * ((1 << 20) + 1)):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ChatTemplateError, match=r"(over|longer than) its limit"):
            load_chat_template_from_file(path)
    path.write_text("é" * (1 << 20), encoding="utf-8")
    assert len(load_chat_template_from_file(path)) == 1 << 20
    with path.open("wb") as sparse:
        sparse.truncate(1 << 40)
    for load in (load_chat_template_from_file, load_chat_template_from_config):
        with pytest.raises(ChatTemplateError, match="longer than its limit"):
            load(path)


def test_priority(tmp_path):
    explicit, folder = tmp_path / "explicit", tmp_path / "model"
    explicit.mkdir()
    folder.mkdir()
    write(explicit, mine__txt="mine", mine__json={"chat_template": "json"}, none__json={})
    for files, found in (
        ({}, None),
        ({"tokenizer_config__json": {"chat_template": "config"}}, "config"),
        ({"other__jinja": "other"}, "other"),
        ({"chat_template__jinja": "jinja", "another__jinja": "another"}, "jinja"),
        ({"chat_template__json": {"chat_template": "json"}}, "json"),
        ({"chat_template__json": {"something": "else"}}, "jinja"),
    ):
        write(folder, **files)
        assert find_chat_template(folder) == found
    assert find_chat_template(folder, explicit / "mine.txt") == "mine"
    assert find_chat_template(folder, str(explicit / "mine.json")) == "json"
    for path, error, message in (
        (explicit / "none.json", ChatTemplateError, "has no chat_template"),
        (explicit / "no.jinja", TokenizerFileNotFound, r"no\.jinja"),
        (explicit / "no.json", TokenizerFileNotFound, r"no\.json"),
    ):
        with pytest.raises(error, match=message):
            find_chat_template(folder, path)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ChatTemplateError, match=r"another\.jinja, other\.jinja"):
        find_chat_template(folder)
    with pytest.raises(TokenizerFileNotFound):
        find_chat_template(tmp_path / "nowhere")
