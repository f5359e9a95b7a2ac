import { afterEach, expect, test, vi } from "vitest";
import type { Session } from "../../api/types";
import { columnKeys, columnsOf, nameOf, open, savedIds, targetOf } from "./targets";

const session = (fields: Partial<Session>) =>
  ({
    id: "ses_1",
    name: "ses_1",
    kind: "serving",
    base_model: "small",
    served_checkpoint_id: null,
    ...fields,
  }) as Session;

afterEach(() => {
  vi.unstubAllGlobals();
});

test("the address says the columns; without one the first model stands there", () => {
  expect(columnsOf(new URLSearchParams("columns=a,b,c,d,e"), [])).toEqual(["a", "b", "c", "d"]);
  expect(columnsOf(new URLSearchParams(), [session({})])).toEqual(["ses_1"]);
  expect(columnsOf(new URLSearchParams(), [])).toEqual([""]);
});

test("a column keeps its key when one before it is removed, and a new one has a key that no other has", () => {
  expect(columnKeys([], 3)).toEqual([0, 1, 2]);
  expect(columnKeys([1, 2], 3)).toEqual([1, 2, 3]);
  expect(columnKeys([5, 1, 2], 2)).toEqual([5, 1]);
});

test("a column is named by its session, else by what it serves", () => {
  expect(nameOf(session({}))).toBe("small");
  expect(nameOf(session({ served_checkpoint_id: "ckp_1" }))).toBe("ckp_1");
  expect(nameOf(session({ name: "mine" }))).toBe("mine");
  expect(nameOf(session({ kind: "episodes", name: "run", policy_version: 8 }))).toBe(
    "run, version 8",
  );
});

test("the episode of a run ends by itself in minutes, and is given up once, also by a page that is being closed", async () => {
  const sent: [string, unknown, boolean | undefined][] = [];
  vi.stubGlobal("document", { cookie: "csrftoken=x" });
  vi.stubGlobal("localStorage", { getItem: () => null });
  vi.stubGlobal("fetch", async (request: Request) => {
    sent.push([new URL(request.url).pathname, await request.json(), request.keepalive]);
    return Response.json({ episode_id: "ep_1", api_key: "k", model: "m" });
  });
  const access = await open({ session: session({ kind: "episodes" }) });
  await Promise.all([access.release(), access.release()]);
  expect(sent).toEqual([
    ["/v1/sessions/ses_1/episodes", { eval: true, timeout_s: 300 }, false],
    ["/v1/sessions/ses_1/episodes/ep_1/abandon", { reason: "playground" }, true],
  ]);
});

test("a link may name what a Tinker client saved, which is asked once its path is known", async () => {
  const place = "saved:ses_1:ckp_2";
  expect(columnsOf(new URLSearchParams({ columns: `${place},ses_1` }), [])).toEqual([
    place,
    "ses_1",
  ]);
  expect([savedIds("saved:ses_1"), savedIds("serve:ckp_2")]).toEqual([null, null]);
  const [outside, path] = [
    { baseUrl: "https://h/v1", key: "", model: "" },
    "tinker://tnk_1:train:0/sampler_weights/a",
  ];
  expect(targetOf(place, [session({})], outside)).toBeNull();
  const target = targetOf(place, [session({})], outside, path);
  expect(target).toEqual({ saved: { sessionId: "ses_1", checkpointId: "ckp_2", path } });
  const asked: string[] = [];
  vi.stubGlobal("document", { cookie: "csrftoken=x" });
  vi.stubGlobal("localStorage", { getItem: () => null });
  vi.stubGlobal("fetch", (request: Request) => {
    asked.push(
      `${request.method} ${new URL(request.url).pathname} ${request.headers.get("X-CSRFToken") ?? ""}`,
    );
    return Promise.resolve(Response.json({ api_key: "k", model: path }, { status: 201 }));
  });
  if (target)
    expect(await open(target)).toMatchObject({ baseUrl: "/oai/api/v1", key: "k", model: path });
  expect(asked).toEqual(["POST /v1/sessions/ses_1/checkpoints/ckp_2/serving-keys x"]);
});

test("a column asks a session that can be asked, or an endpoint once it is named whole", () => {
  const outside = { baseUrl: "https://h/v1", key: "k", model: "" };
  expect(targetOf("ses_1", [session({})], outside)).toEqual({ session: session({}) });
  expect(targetOf("serve:small", [session({})], outside)).toBeNull();
  expect(targetOf("endpoint", [], outside)).toBeNull();
  expect(targetOf("endpoint", [], { ...outside, model: "m" })).toEqual({
    outside: { ...outside, model: "m" },
  });
});
