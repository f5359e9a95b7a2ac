import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { unwrap, api, apiByToken } from "./client";
import { ApiError } from "./errors";

const sent: Request[] = [];

function answering(response: () => Response | Promise<Response>): void {
  vi.stubGlobal("fetch", (request: Request | string, init?: RequestInit) => {
    sent.push(
      request instanceof Request ? request : new Request(`http://localhost${request}`, init),
    );
    return response();
  });
}

beforeEach(() => {
  vi.stubGlobal("document", { cookie: "a=1; csrftoken=tok" });
  vi.stubGlobal("localStorage", { getItem: () => "prj_2" });
});
afterEach(() => {
  sent.length = 0;
});

test("a write carries the token and the chosen project, and its answer is what the server wrote", async () => {
  answering(() => Response.json({ id: "key_1" }, { status: 201 }));
  const made = await unwrap(api.POST("/v1/keys", { body: { name: "a" } }));
  expect(made.id).toBe("key_1");
  const [request] = sent;
  expect(request?.method).toBe("POST");
  expect(Object.fromEntries(request?.headers ?? [])).toMatchObject({
    accept: "application/json",
    "content-type": "application/json",
    "x-csrftoken": "tok",
    "x-project-id": "prj_2",
  });
  expect(await request?.json()).toEqual({ name: "a" });
});

test("whose account it is does not depend on the project, and a link's reader sends the link's token alone", async () => {
  answering(() => Response.json({}));
  await unwrap(api.GET("/v1/account"));
  await unwrap(apiByToken("shr_1").GET("/v1/shared"));
  expect(sent.map(({ headers }) => headers.get("X-Project-Id"))).toEqual([null, null]);
  expect(sent[1]?.headers.get("Authorization")).toBe("Bearer shr_1");
  expect(sent[1]?.credentials).toBe("omit");
});

test("what a path is made of is encoded", async () => {
  answering(() => new Response(null, { status: 204 }));
  expect(
    await unwrap(api.DELETE("/v1/keys/{key_id}", { params: { path: { key_id: "a/../b?" } } })),
  ).toBeUndefined();
  expect(new URL(sent[0]?.url ?? "").pathname).toBe("/v1/keys/a%2F..%2Fb%3F");
});

test("a refusal, a proxy's page and no answer at all each have their words", async () => {
  const asked = () => unwrap(api.GET("/v1/keys")).catch((error: unknown) => error as ApiError);
  answering(() =>
    Response.json(
      { error: { code: "forbidden", message: "No.", hint: "Ask.", details: {} }, request_id: "r1" },
      { status: 403 },
    ),
  );
  expect(await asked()).toMatchObject({
    status: 403,
    code: "forbidden",
    hint: "Ask.",
    requestId: "r1",
  });
  answering(() => new Response("<html>Bad gateway</html>", { status: 502 }));
  expect(await asked()).toMatchObject({
    status: 502,
    code: "unexpected",
    message: "The server returned 502.",
  });
  answering(() => new Response(null, { status: 503 }));
  expect(await asked()).toMatchObject({ status: 503, code: "unexpected" });
  answering(() => Promise.reject(new TypeError("Failed to fetch")));
  expect(await asked()).toMatchObject({ status: 0, code: "unreachable" });
  expect(await asked()).toBeInstanceOf(ApiError);
});

test("a request after the sign-in has ended is told so in words for people, and a link's reader in the server's", async () => {
  const said = {
    error: { code: "unauthenticated", message: "This request carries no API key.", details: {} },
  };
  answering(() => Response.json(said, { status: 401 }));
  await expect(unwrap(api.GET("/v1/keys"))).rejects.toMatchObject({
    status: 401,
    message: "Your sign-in has ended.",
  });
  await expect(unwrap(apiByToken("shr_1").GET("/v1/shared"))).rejects.toMatchObject({
    status: 401,
    message: said.error.message,
  });
});

test("a body that breaks off, a page in the place of JSON and an error that is a text are errors of the API too", async () => {
  const asked = () => unwrap(api.GET("/v1/keys")).catch((error: unknown) => error);
  const broken = () =>
    new ReadableStream({
      pull: (body) => {
        body.error(new DOMException("late", "TimeoutError"));
      },
    });
  const cases: [Response, Partial<ApiError>][] = [
    [new Response(broken()), { status: 0, code: "unreachable" }],
    [
      new Response("<html>Sign in</html>"),
      { status: 200, code: "unexpected", message: "The server returned what cannot be read." },
    ],
    [Response.json({ error: "nobody home" }, { status: 504 }), { status: 504, code: "unexpected" }],
  ];
  for (const [response, expected] of cases) {
    answering(() => response);
    const error = await asked();
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject(expected);
  }
});

/** Not run: the type check of these is the test. */
export function typed(): unknown {
  return [
    // @ts-expect-error there is no such path
    api.GET("/v1/keyz"),
    // @ts-expect-error this path is not written to
    api.POST("/v1/server"),
    // @ts-expect-error there is no such parameter
    api.GET("/v1/usage", { params: { query: { limt: 5 } } }),
  ];
}
