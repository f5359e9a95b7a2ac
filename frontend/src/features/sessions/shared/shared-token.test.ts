import { afterEach, expect, test, vi } from "vitest";
import { rememberToken, tokenOf } from "./shared-token";

afterEach(() => {
  vi.unstubAllGlobals();
});

test("a browser that blocks storage reads a link all the same, also where the address has lost it", () => {
  const blocked = () => {
    throw new DOMException("blocked", "SecurityError");
  };
  vi.stubGlobal("sessionStorage", { getItem: blocked, setItem: blocked });
  expect(tokenOf("")).toBe("");
  expect(tokenOf("#tml-sl_1")).toBe("tml-sl_1");
  rememberToken("tml-sl_1");
  expect(tokenOf("")).toBe("tml-sl_1");
});
