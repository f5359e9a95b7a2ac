// API keys of the project.
import { queryOptions } from "@tanstack/react-query";
import { get, post, remove } from "./client";
import type { Items, Key, KeyCreate, KeyCreated } from "./types";

export const keysQuery = queryOptions({
  queryKey: ["keys"],
  queryFn: () => get<Items<Key>>("/v1/keys"),
});

export function createKey(body: KeyCreate): Promise<KeyCreated> {
  return post("/v1/keys", body);
}

export function revokeKey(id: string): Promise<void> {
  return remove(`/v1/keys/${id}`);
}
