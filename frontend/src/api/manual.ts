// The manual as the build has it: an index, and pages of Markdown.
import { queryOptions } from "@tanstack/react-query";
import { request } from "./client";
import { ApiError, unexpected } from "./errors";

export interface ManualEntry {
  path: string;
  title: string;
  headings: string[];
}

/** The place of a heading in its page: "By `curl`" has "by-curl". */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w\s-]/g, "")
    .trim()
    .replace(/[\s-]+/g, "-");
}

async function read(path: string): Promise<Response> {
  const response = await request("GET", `/manual/${path}`);
  // Where there is no such file the server sends the console's own page.
  if (response.headers.get("Content-Type")?.includes("text/html"))
    throw new ApiError(404, "not_found", "The manual has no such page.");
  if (!response.ok) throw unexpected(response.status);
  return response;
}

export const manualQuery = queryOptions({
  queryKey: ["manual"],
  queryFn: async () => (await (await read("index.json")).json()) as ManualEntry[],
  staleTime: Infinity,
  retry: false,
});

export function manualPageQuery(path: string) {
  return queryOptions({
    queryKey: ["manual", path],
    queryFn: async () => (await read(`${path}.md`)).text(),
    staleTime: Infinity,
    retry: (failures, error) =>
      failures < 2 && !(error instanceof ApiError && error.status === 404),
  });
}
