// Whether this person may change anything in the project that is looked at: a viewer may only look.
import { useQuery } from "@tanstack/react-query";
import { accountQuery } from "./api/account";
import { currentProject } from "./api/project";

export function useMayWrite(): boolean {
  const { data: account } = useQuery(accountQuery);
  const project = account && currentProject(account);
  return project !== undefined && project.role !== "viewer";
}
