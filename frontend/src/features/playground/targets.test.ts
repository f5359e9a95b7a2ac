import { expect, test } from "vitest";
import type { Session } from "../../api/types";
import { columnsOf, nameOf } from "./targets";

const session = (fields: Partial<Session>) => ({ id: "ses_1", name: "ses_1", kind: "serving", base_model: "small", served_checkpoint_id: null, ...fields }) as Session;

test("the address says the columns; without one the first model stands there", () => {
  expect(columnsOf(new URLSearchParams("columns=a,b,c,d,e"), [])).toEqual(["a", "b", "c", "d"]);
  expect(columnsOf(new URLSearchParams(), [session({})])).toEqual(["ses_1"]);
  expect(columnsOf(new URLSearchParams(), [])).toEqual([]);
});

test("a column is named by its session, else by what it serves", () => {
  expect(nameOf(session({}))).toBe("small");
  expect(nameOf(session({ served_checkpoint_id: "ckp_1" }))).toBe("ckp_1");
  expect(nameOf(session({ name: "mine" }))).toBe("mine");
  expect(nameOf(session({ kind: "episodes", name: "run", policy_version: 8 }))).toBe("run, version 8");
});
