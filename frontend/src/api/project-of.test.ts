import { expect, test, vi } from "vitest";
import { projectOf } from "./sessions";

test("a session is looked for in one project after the other, as a request of each", async () => {
  const asked: (string | null)[] = [];
  vi.stubGlobal("localStorage", { getItem: () => "prj_1" });
  vi.stubGlobal("fetch", (request: Request) => {
    const project = request.headers.get("X-Project-Id");
    asked.push(project);
    const error = { error: { code: "not_found", message: "No." }, request_id: "r" };
    return Promise.resolve(
      project === "prj_3" ? Response.json({ id: "ses_1" }) : Response.json(error, { status: 404 }),
    );
  });
  expect(await projectOf("ses_1", [{ id: "prj_2" }, { id: "prj_3" }, { id: "prj_4" }])).toBe(
    "prj_3",
  );
  expect(asked).toEqual(["prj_2", "prj_3"]);
  expect(await projectOf("ses_1", [{ id: "prj_2" }])).toBeNull();
});
