// Stands before every page of a run: a link that leads into another of the person's projects goes on there.
import { useQuery } from "@tanstack/react-query";
import { useEffect, type ReactNode } from "react";
import { useLocation } from "react-router";
import { accountQuery } from "../../api/account";
import { ApiError } from "../../api/errors";
import { currentProject, inProject } from "../../api/project";
import { projectOf, sessionQuery } from "../../api/sessions";
import { ButtonLink } from "../../ui/button";
import { Loading } from "../../ui/loading";
import { Empty } from "../../ui/panel";

export function RunGate({ id, children }: { id: string; children: ReactNode }) {
  const { data, error } = useQuery(sessionQuery(id));
  const isAbsent = !data && error instanceof ApiError && error.status === 404;
  return isAbsent ? <Absent id={id} /> : children;
}

function Absent({ id }: { id: string }) {
  const { pathname, search, hash } = useLocation();
  const { data: account } = useQuery(accountQuery);
  const others = account?.projects.filter((project) => project !== currentProject(account)) ?? [];
  const { data: project, isLoading } = useQuery({
    queryKey: ["project of session", id],
    queryFn: () => projectOf(id, others),
    enabled: others.length > 0,
  });
  const to = project ? inProject(project, pathname + search + hash) : "";
  useEffect(() => {
    if (to) window.location.replace(to); // everything that was read is of the project before
  }, [to]);
  if (isLoading || to) return <Loading />;
  return (
    <Empty isPage title="There is no such session in your projects">
      <p className="mb-3">
        It may have been deleted, or be in a project that you are not a member of.
      </p>
      <ButtonLink to="/sessions">All sessions</ButtonLink>
    </Empty>
  );
}
