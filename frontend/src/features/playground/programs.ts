// The programs that go on with a conversation. tests/e2e/test_snippets.py runs each of them as it
// is shown.
import {
  curlSnippet,
  policySnippet,
  PROJECT_KEY,
  pythonSnippet,
  type ChatBody,
} from "../../ui/call-snippets";
import type { Target } from "./targets";

const ENDPOINT_KEY = "ENDPOINT_API_KEY";

interface Programs {
  /** What a reader has to have first. */
  needs: string;
  python: string;
  curl?: string;
}

/** `origin`: this server's own. */
export function programsOf(
  target: Target,
  body: Omit<ChatBody, "model">,
  origin: string,
): Programs {
  if ("session" in target && target.session.kind !== "serving") {
    return {
      needs: "It needs the client and the two variables that a new key shows (“API keys”).",
      python: policySnippet(target.session.id, body),
    };
  }
  const isOurs = !("outside" in target);
  const baseUrl = isOurs ? `${origin}/oai/api/v1` : target.outside.baseUrl;
  const key = isOurs ? PROJECT_KEY : ENDPOINT_KEY;
  const whole: ChatBody = {
    model:
      "saved" in target ? target.saved.path : isOurs ? target.session.id : target.outside.model,
    ...body,
  };
  return {
    needs: isOurs
      ? `${PROJECT_KEY} is a key of this project (“API keys”).`
      : `${ENDPOINT_KEY} is the key of the endpoint.`,
    python: pythonSnippet(baseUrl, whole, key),
    curl: curlSnippet(baseUrl, whole, key),
  };
}
