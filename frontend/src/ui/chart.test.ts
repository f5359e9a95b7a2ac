import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { expect, test } from "vitest";
import { Chart as Drawn, type ChartProps } from "./chart";

const Chart = (props: ChartProps) => createElement(MemoryRouter, null, createElement(Drawn, props));

const NONE = { title: "Reward", x: [], series: [] };

test("a chart whose data is on its way does not say that there is none", () => {
  const loading = renderToStaticMarkup(createElement(Chart, { ...NONE, isLoading: true }));
  expect(loading).toContain('aria-label="Reward: Loading…"');
  expect(loading).not.toContain("No step yet");
  const empty = renderToStaticMarkup(createElement(Chart, NONE));
  expect(empty).toContain('aria-label="Reward: No step yet"');
  expect(empty).not.toContain("animate-pulse");
});
