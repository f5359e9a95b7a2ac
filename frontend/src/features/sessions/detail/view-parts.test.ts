import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { hasChartParts, viewOf, withView } from "./view-parts";

test("a view is what an address says of the charts, in one order, and nothing else", () => {
  expect(viewOf(new URLSearchParams("open=speed&other=1&x=time&smooth="))).toBe(
    "x=time&open=speed",
  );
  expect(viewOf(new URLSearchParams("x=time&open=speed"))).toBe("x=time&open=speed");
  expect(viewOf(new URLSearchParams())).toBe("");
});

test("to open a view changes its parts alone, those that it does not have too", () => {
  const opened = withView(
    new URLSearchParams("other=1&y=log&x=tokens"),
    "x=time&smooth=0.5&evil=1",
  );
  expect(opened.toString()).toBe("other=1&x=time&smooth=0.5");
  expect(withView(opened, "").toString()).toBe("other=1");
});

test("the server keeps the same parts", () => {
  const wire = readFileSync(
    new URL("../../../../../sdk/tinkerscript/wire/reading/saved_views.py", import.meta.url),
    "utf8",
  );
  const kept = /PARTS = \(([^)]*)\)/.exec(wire)?.[1]?.match(/\w+/g) ?? [];
  const all = new URLSearchParams(kept.map((name) => [name, "1"]));
  expect(kept.length).toBeGreaterThan(0);
  expect([...new URLSearchParams(viewOf(all)).keys()]).toEqual(kept);
});

test("an address with a part of the charts is of their page", () => {
  expect(
    ["smooth=0.6", "x=tokens", "zoom=1~2", "open=speed", "y=log"].every((part) =>
      hasChartParts(new URLSearchParams(part)),
    ),
  ).toBe(true);
  expect(hasChartParts(new URLSearchParams("token=2"))).toBe(false);
});
