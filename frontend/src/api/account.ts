// Who is signed in, and in which projects.
import { queryOptions } from "@tanstack/react-query";
import { get } from "./client";
import type { Account } from "./types";

export const accountQuery = queryOptions({
  queryKey: ["account"],
  queryFn: () => get<Account>("/v1/account"),
  staleTime: 60_000,
});
