// Questions before the first task: what will this code give? Choose, then read why. Nothing is graded.

import { count, make } from "../dom.js";
import { prose } from "../prose.js";

/**
 * The predictions of a lab.
 *
 * @param {object} lab of labs.json
 * @param {Record<string, boolean | null>} before number of a question -> whether its answer was right
 * @param {(answers: Record<string, boolean>) => void} onAnswer
 */
export function predictionsNode(lab, before, onAnswer) {
  const questions = lab.predictions ?? [];
  if (!questions.length) return null;
  const answers = { ...before };
  const told = make("small");
  const answer = (number, isRight) => {
    answers[number] = isRight;
    onAnswer({ ...answers });
    draw();
  };
  function draw() {
    const given = Object.values(answers).filter((right) => right !== null);
    const right = given.filter(Boolean).length;
    told.textContent = given.length
      ? ` ${right} of ${given.length} right`
      : ` ${count(questions.length, "question")}, nothing is graded`;
  }
  draw();
  const title = make("summary", "", "Predict first: what will the code do?", told);
  const items = questions.map((question, place) => questionNode(question, place + 1, answer));
  return make("details", "fold predictions", title, make("ol", "", ...items));
}

function questionNode(question, number, answer) {
  const told = make("div", { className: "why", "aria-live": "polite" });
  const choices = question.choices.map((choice) => {
    const input = make("input", { type: "radio", name: `prediction-${number}`, value: choice });
    return make("label", "choice", input, " ", make("code", "", choice));
  });
  const legend = make("legend", "", `${number}. `, ...prose(question.ask_html));
  const box = make("fieldset", "", legend, make("pre", { tabindex: "0" }, question.code));
  box.append(...choices, told);
  box.addEventListener("change", ({ target }) => {
    const isRight = target.value === question.answer;
    for (const label of choices) {
      const { value, checked } = label.querySelector("input");
      label.classList.toggle("right", value === question.answer);
      label.classList.toggle("wrong", checked && !isRight);
    }
    const verdict = isRight ? "✓ Right." : "✗ Not this one: it gives ";
    told.replaceChildren(
      make(
        "p",
        "",
        make("b", "", verdict),
        isRight ? "" : make("code", "", question.answer),
        isRight ? "" : ".",
      ),
      make("p", "", ...prose(question.why_html)),
    );
    answer(number, isRight);
  });
  return make("li", "", box);
}
