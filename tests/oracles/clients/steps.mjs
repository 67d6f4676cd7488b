// Runs one client's program and prints what came of each step, as `steps.py` does.

import { readFileSync } from "node:fs";

const expected = JSON.parse(readFileSync(new URL("expected.json", import.meta.url), "utf8"));

function same(found, wanted) {
  const [one, other] = [found, wanted].map((value) => JSON.stringify(value));
  if (one !== other) throw new Error(`${one} instead of ${other}`);
}

const checks = {
  async chat(program, url) {
    same(await program.chat(url, "Greet me."), expected.greeting);
  },
  async stream(program, url) {
    const pieces = [];
    for await (const piece of program.stream(url, "Greet me.")) if (piece) pieces.push(piece);
    same(pieces.join(""), expected.greeting);
    if (pieces.length < 3) throw new Error(`came in ${pieces.length} pieces`);
  },
  async tools(program, url) {
    const calls = [];
    const call = (name, given) => {
      calls.push([name, typeof given === "string" ? JSON.parse(given) : given]);
      return expected.result;
    };
    const { tool } = expected;
    const said = await program.tools(url, "What is the weather in Quillon?", tool, call);
    same(calls, [["get_weather", expected.arguments]]);
    same(said, expected.forecast);
  },
  async structured(program, url) {
    const { parameters } = expected.tool;
    const prompt = "What is the weather in Quillon? As JSON.";
    same(await program.structured(url, prompt, parameters), expected.arguments);
  },
};

const [name, url] = process.argv.slice(2);
const said = {};
for (const [step, check] of Object.entries(checks)) {
  try {
    const program = await import(`./programs/${name}.mjs`);
    if (!program[step]) continue;
    await check(program, url);
    said[step] = "ok";
  } catch (error) {
    console.error(error);
    said[step] = `${error.name}: ${error.message}`;
  }
}
console.log("\n" + JSON.stringify(said));
process.exit();
