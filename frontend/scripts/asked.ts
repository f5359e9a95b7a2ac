// What a function asks of the server: for tests of addresses.
import { vi } from "vitest";

/** Path and query of each request that `read` sends; every one is answered with `body`. */
export async function asked(read: () => Promise<unknown>, body: unknown = {}): Promise<string[]> {
  const urls: string[] = [];
  vi.stubGlobal("fetch", (request: Request) => {
    const { pathname, search } = new URL(request.url);
    urls.push(pathname + search);
    return Promise.resolve(Response.json(body));
  });
  await read();
  return urls;
}
