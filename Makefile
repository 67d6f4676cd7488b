# Every target sets itself up first. Works with GNU make 3.81 and newer.

PYTHON ?= python3
N ?=
T ?=
TRACK ?=
B ?=
OUT ?=
ARGS ?=

setup = @command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found: install Python 3.11 or newer."; exit 1; }; \
	$(PYTHON) -I labkit/student/bootstrap.py
# -P: a stray file, perhaps a submission, is never imported.
labkit = .venv/bin/python -P -m labkit
track = $(if $(TRACK),LAB_TRACK='$(TRACK)')
# A failing test, a "no" (1), or a test that had to be killed (137) is not an error of make, except in CI.
quietly = || { code=$$?; case $$code in 1|137) test -z "$$CI" ;; *) false ;; esac || exit $$code; }

# Two more than there are processors: tests often wait for processes of their own.
processes = $$(( $$(getconf _NPROCESSORS_ONLN) + 2 ))

# Each process would compile every test anew: half of its start.
check test: export PYTHONDONTWRITEBYTECODE =

.PHONY: help lab progress hint show predict race solution watch reset demo serve stream tokenizer bundle plugin reference bug test \
	grade term student-edition site gradescope classroom50 check soak bench oracles pythons upstream matrix lock

help:
	@echo "For students"
	@echo "  make lab               grade the starter.py of your next unfinished lab"
	@echo "  make lab N=03          ... of lab 03;  make lab N=03 T=2  only its task 2;  ARGS=-s  for pytest"
	@echo "  make watch             run a lab whenever you save; once it passes, go on to the next"
	@echo "  make progress          your place on the ladder, and which layers of the pipeline are yours"
	@echo "  make predict N=03      questions before you write code: what will it do? nothing is graded"
	@echo "  make hint              a hint for your current task, one level deeper each time;  N=03 T=2  for a task"
	@echo "  make show N=03         step through the first failing case in your own code;  T=2  for a task"
	@echo "  make race N=04         the speed of your code, beside the reference and a naive version (01, 03, 04, 07, 09)"
	@echo "  make solution N=03     the reference, once you have passed"
	@echo "  make reset N=03        a fresh starter.py (asks first, keeps a backup)"
	@echo "  make demo              the pipeline live in the terminal, with your layers in it; ARGS=--help for more"
	@echo "  make demo N=03         one layer beside the naive way, piece by piece (03, 04, 01, 05 to 09)"
	@echo "  make demo TRACK=advanced   ... with the advanced labs; on a real vocabulary (after lab 03: once lab 06 or 07 passes)"
	@echo "  make serve             a server with a page to watch it; LAB_IMPL=starter puts your layers in it"
	@echo "  make stream            requests of a file, side by side in the terminal; ARGS=requests.json"
	@echo "  make tokenizer         look at a real tokenizer; ARGS='PATH-OR-NAME --text \"...\"'"
	@echo "  make upstream          the real engines' sources that the reading map leads to (87 MB)"
	@echo "  make bundle N=03       the zip to hand in"
	@echo "  make plugin N=09 OUT=my_parser.py   your parser as a plug-in of vLLM and SGLang (01, 09)"
	@echo "For instructors"
	@echo "  make reference N=03    the lab's tests on the reference solution"
	@echo "  make bug N=03          the lab's known bugs;  B=NAME  runs the tests on one"
	@echo "  make grade ARGS='PATH' grade submissions in a sandbox; ARGS=--help for more"
	@echo "  make term ARGS=--help  the marks of several labs side by side, from their ledgers"
	@echo "  make student-edition OUT=FOLDER   the course without solutions, to hand out"
	@echo "  make site              the course as a site, labs included; ARGS=--serve shows it (needs node)"
	@echo "  make gradescope N=03   the autograder zip of a lab for Gradescope"
	@echo "  make classroom50 N=03  the autograder of a lab for Classroom 50"
	@echo "  make test              every test of the repository, on the references; ARGS=tests/engine  one room's"
	@echo "For maintainers"
	@echo "  make check             all gates: labs, kill matrix, promises, imports, style, types; ARGS=--changed"
	@echo "  make soak              the randomised tests with many more examples, and all mutants; ARGS=PART  one part"
	@echo "  make bench             benchmarks, as ratios to a named peer; ARGS=stops  one group"
	@echo "  make oracles           compare with real peers, and try real clients (downloads 2 GB; npm for some;  ARGS=--here  none)"
	@echo "  make pythons           labs and tests on Debian's own Pythons, each in a chroot (as root); ARGS=--help"
	@echo "  make matrix            write the generated parts of pages: ladder, kill matrix, files of labs"
	@echo "  make lock              rewrite requirements/*.txt from pyproject.toml (needs uv)"

lab:
	$(setup) core
	@$(labkit) lab --lab "$(N)" --task "$(T)" -- $(ARGS) $(quietly)

progress:
	$(setup) core
	@$(labkit) progress $(quietly)

hint:
	$(setup) core
	@$(labkit) hint --lab "$(N)" --task "$(T)" $(quietly)

show:
	$(setup) core
	@$(labkit) show --lab "$(N)" --task "$(T)" $(ARGS) $(quietly)

predict:
	$(setup) core
	@exec $(labkit) predict --lab "$(N)"

race:
	$(setup) core
	@$(labkit) race --lab "$(N)" $(quietly)

solution:
	$(setup) core
	@$(labkit) solution --lab "$(N)" $(quietly)

watch:
	$(setup) watch
	@exec $(labkit) watch --lab "$(N)" --task "$(T)" -- $(ARGS)

reset:
	$(setup) core
	@$(labkit) reset --lab "$(N)" $(quietly)

demo:
	$(setup) core
	@trap : INT; $(track) $(labkit) demo $(if $(N),--lab '$(N)') $(ARGS) $(quietly)

serve:
	$(setup) serve
	@$(track) exec $(labkit) serve $(ARGS)

stream:
	$(setup) core
	@.venv/bin/python -m mini_vllm.stream $(ARGS)

tokenizer:
	$(setup) tokenizers
	@.venv/bin/python -m mini_vllm.tokenizer $(or $(ARGS),byte)

upstream:
	$(setup) core
	@.venv/bin/python upstream/sources.py

bundle:
	$(setup) core
	@$(labkit) bundle --lab "$(N)" $(ARGS)

plugin:
	$(setup) core
	@$(labkit) plugin --lab "$(N)" --out "$(OUT)" $(ARGS) $(quietly)

reference:
	$(setup) core
	@$(labkit) lab --lab "$(N)" --task "$(T)" --impl solution -- $(ARGS) $(quietly)

bug:
	$(setup) core
	@$(labkit) bug --lab "$(N)" --bug "$(B)" $(quietly)

grade:
	$(setup) core
	@$(labkit) grade $(ARGS)

term:
	$(setup) core
	@$(labkit) term $(ARGS)

student-edition:
	$(setup) core
	@$(labkit) student-edition --out "$(OUT)" $(ARGS)

gradescope:
	$(setup) core
	@$(labkit) gradescope --lab "$(N)" $(ARGS)

classroom50:
	$(setup) core
	@$(labkit) classroom50 --lab "$(N)" $(ARGS)

test:
	$(setup) dev
	@echo "Every test, in parallel (4 processes at most). One room's tests: make test ARGS=tests/engine"
	@LAB_IMPL=solution LAB_PARTS=reference .venv/bin/python -m pytest -q \
		-p xdist.plugin -n $(processes) --maxprocesses 4 --dist loadscope --no-loadscope-reorder --durations 10 $(ARGS)

check:
	$(setup) dev
	@$(labkit) check $(ARGS)

soak:
	$(setup) dev
	@$(labkit) soak $(ARGS)

bench:
	$(setup) dev
	@.venv/bin/python -m benchmarks $(ARGS)

oracles:
	$(setup) dev
	@.venv/bin/python tests/oracles/run.py $(ARGS)

pythons:
	@exec $(PYTHON) tests/pythons/pythons.py $(ARGS)

site:
	$(setup) site
	$(if $(findstring --test,$(ARGS)),$(setup) dev)
	@exec $(labkit) site $(ARGS)

matrix:
	$(setup) core
	@$(labkit) matrix

lock:
	@command -v uv >/dev/null || { echo "make lock needs uv on the PATH: pip install uv"; exit 1; }
	@sh requirements/lock.sh
