import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { afterEach, expect, test, vi } from "vitest";
import { useAddress, withParts } from "./address-part";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

test("what is emptied leaves the address, the rest stays", () => {
  const address = new URLSearchParams("state=ready&name=x");
  expect(withParts(address, { name: "" }).toString()).toBe("state=ready");
  expect(withParts(address, { state: "failed" }).toString()).toBe("state=failed&name=x");
  expect(address.toString()).toBe("state=ready&name=x");
});

test("a change begins with the address of now, not with that of the last paint", () => {
  vi.spyOn(console, "warn").mockImplementation(() => undefined); // the router goes nowhere without a browser, and says so
  let change: ReturnType<typeof useAddress>[1] = () => undefined;
  const Part = () => {
    [, change] = useAddress();
    return null;
  };
  renderToStaticMarkup(
    createElement(MemoryRouter, { initialEntries: ["/?task=a"] }, createElement(Part)),
  );
  vi.stubGlobal("window", { location: { search: "?task=ab" } });
  const seen: string[] = [];
  change((now) => {
    seen.push(now.toString());
    return withParts(now, { fate: "trained" });
  });
  expect(seen).toEqual(["task=ab"]);
});
