import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { causeOf, FailureNotice } from "./failure-notice";

const FAILURE = {
  code: "runtime_lost",
  cause: "SafetensorError: cut off, after 5 restarts.",
  hint: "Copy it again.",
  log: ["Traceback", "a\u202e line"],
};

test("the cause of a failure is the first thing said, with what to do and the end of the log", () => {
  const shown = renderToStaticMarkup(createElement(FailureNotice, { failure: FAILURE }));
  expect(shown).toMatch(
    /Failed: SafetensorError: cut off.*Copy it again\..*last 2 lines.*a⟨U\+202E⟩ line/s,
  );
  expect(
    renderToStaticMarkup(createElement(FailureNotice, { failure: { ...FAILURE, log: [] } })),
  ).not.toContain("details");
});

test("a cause of several lines has its first as the title, and none has its code", () => {
  expect(causeOf({ code: "x", cause: "one\ntwo\nthree" })).toEqual({
    title: "one",
    rest: "two\nthree",
  });
  expect(causeOf({ code: "disk_full", cause: "" })).toEqual({ title: "disk full", rest: "" });
});
