// What the server refused, by the names that the form has for its fields.
import { ApiError } from "../../../api/errors";

/** The server names a field by its path in the body; the form calls an option by its own name. */
export function serverErrors(error: Error | null): Record<string, string> {
  if (!(error instanceof ApiError)) return {};
  const named = Object.entries(error.fields).map(([path, message]) => [
    path.replace(/^config\./, ""),
    message,
  ]);
  if (error.code === "unknown_base_model" || error.code === "does_not_fit")
    named.push(["base_model", error.message]);
  return Object.fromEntries(named) as Record<string, string>;
}
