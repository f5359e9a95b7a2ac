import { expect, test } from "vitest";
import { findsOf, soughtIn } from "./finds";

const PAGES = [{ path: "howto/serving", title: "Serve a model", headings: ["Keys for calls"] }];
const named = (typed: string, run = "") =>
  findsOf(typed, run, PAGES).map(({ group, name, to }) => [group, name, to]);

test("a number is a step of the run that is open", () => {
  expect(named("step 12", "ses_1")).toEqual([["This run", "Step 12", "/sessions/ses_1/steps/12"]]);
  expect(named("12", "ses_1")[0]).toEqual(["This run", "Step 12", "/sessions/ses_1/steps/12"]);
  expect(named("step 12")).toEqual([]);
});

test("a step or an episode may be of a run that is named before it", () => {
  expect(soughtIn("run 12 episode 5")).toEqual({ run: "run 12", part: "episode", what: "5" });
  expect(soughtIn("Night run  STEP 3")).toEqual({ run: "Night run", part: "step", what: "3" });
  expect(soughtIn("episode red car")).toEqual({ run: "", part: "episode", what: "red car" });
  expect(["step", "step x", "episode ", "12", "my episodes"].map(soughtIn)).toEqual([
    null,
    null,
    null,
    null,
    null,
  ]);
});

test("an option is found by its words: in a run its value, else what it does", () => {
  expect(named("grpo n")).toContainEqual(["Options", "grpo_n", "/words?q=grpo_n"]);
  expect(named("GRPO_N", "ses_1")).toContainEqual([
    "Options",
    "grpo_n",
    "/sessions/ses_1/settings?option=grpo_n",
  ]);
  expect(named("g")).toEqual([]);
});

test("words of the field and pages of the manual are found, a heading at its place", () => {
  expect(named("entropy")).toContainEqual(["Words", "Entropy", "/words?q=Entropy"]);
  expect(named("serve a")).toEqual([["Manual", "Serve a model", "/manual/howto/serving"]]);
  expect(named("keys for")).toEqual([
    ["Manual", "Keys for calls", "/manual/howto/serving#keys-for-calls"],
  ]);
});
