import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { expect, test } from "vitest";
import type { Session } from "../../../api/types";
import { BeganFrom } from "./session-facts";

type Began = NonNullable<Session["started_from"]>;

function shown(checkpoint: Partial<Began>): string {
  const page = createElement(
    MemoryRouter,
    null,
    createElement(BeganFrom, {
      checkpoint: {
        checkpoint_id: "ckp_1",
        session_id: "ses_0",
        kind: "state",
        step: 7,
        tinker_path: null,
        ...checkpoint,
      },
    }),
  );
  return renderToStaticMarkup(page).replaceAll(/<[^>]+>/g, "");
}

test("what a run began from has its step, or the path that a Tinker client gave it, whose step is the number of a request", () => {
  expect(shown({})).toBe("from the state of step 7 of another run");
  expect(shown({ tinker_path: "tinker://tnk_1:train:0/weights/a" })).toBe(
    "from tinker://tnk_1:train:0/weights/a of another run",
  );
});
