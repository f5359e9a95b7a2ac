import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { RefusedCalls } from "./episode-page";

const page = (refused: Parameters<typeof RefusedCalls>[0]["refused"]) =>
  renderToStaticMarkup(createElement(RefusedCalls, { refused }));

test("an episode's refused calls are shown, the latest first", () => {
  const last = ["tools[0] has no name.", "prompt is too long"].map((message, at) => ({
    at,
    message,
    path: "POST /messages",
    status: 400,
  }));
  const html = page({ count: 12, last });
  expect(html).toContain("12 calls were refused");
  expect(html.indexOf("prompt is too long")).toBeLessThan(html.indexOf("tools[0] has no name."));
  expect(html).toContain("(400, POST /messages)");
});

test("an episode without a refused call has no notice", () => {
  expect(page(null)).toBe("");
  expect(page(undefined)).toBe("");
});
