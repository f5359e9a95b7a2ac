import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { PayersPanel } from "./payers-panel";

const PAYERS = [
  { id: "mem_1", name: "ada\u202e@example.org", device_s: 7200, cost: 5 },
  { id: null, name: "no longer known, or no longer members", device_s: 60, cost: 0.0031 },
];
const PRICES = { currency: "USD", gpu: 2.5, cpu: 0.1 };

function shown(priced: boolean): string {
  return renderToStaticMarkup(createElement(PayersPanel, { title: "By member", payers: PAYERS, prices: priced ? PRICES : null }));
}

test("each has its device time, and its cost where there are prices", () => {
  expect(shown(true)).toMatch(/ada⟨U\+202E⟩@example\.org.*2 h.*\$5\.00.*1 min.*\$0\.0031/s);
  expect(shown(false)).toContain("2 h");
  expect(shown(false)).not.toMatch(/\$|Cost/);
});
