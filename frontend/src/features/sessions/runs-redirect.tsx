// `/runs/...` leads to the same place under `/sessions/...`.
import { Navigate, useLocation } from "react-router";
import { ofSessions } from "./episodes/places";

export function RunsRedirect() {
  return <Navigate to={ofSessions(useLocation())} replace />;
}
