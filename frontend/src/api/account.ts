// Who is signed in, in which projects, and where they are invited to.
import { queryOptions } from "@tanstack/react-query";
import { get, post, remove } from "./client";
import { keepChoice } from "./project";
import type { Account, Items, Project, SignIn } from "./types";

export const accountQuery = queryOptions({
  queryKey: ["account"],
  queryFn: async () => keepChoice(await get<Account>("/v1/account")),
  staleTime: 60_000,
});

export function createProject(name: string): Promise<Project> {
  return post("/v1/projects", { name });
}

export function acceptInvitation(id: string): Promise<Project> {
  return post(`/v1/invitations/${id}/accept`);
}

export function declineInvitation(id: string): Promise<void> {
  return remove(`/v1/invitations/${id}`);
}

/** What the audit log has of the person's own sign-ins, newest first. */
export const signInsQuery = queryOptions({
  queryKey: ["sign-ins"],
  queryFn: () => get<Items<SignIn>>("/v1/account/sign-ins?limit=20"),
});
