import { expect, test } from "vitest";
import { withPart } from "./address-part";

test("what is emptied leaves the address, the rest stays", () => {
  const address = new URLSearchParams("state=ready&name=x");
  expect(withPart(address, "name", "").toString()).toBe("state=ready");
  expect(withPart(address, "state", "failed").toString()).toBe("state=failed&name=x");
  expect(address.toString()).toBe("state=ready&name=x");
});
