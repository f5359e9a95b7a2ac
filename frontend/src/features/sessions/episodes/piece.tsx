// The text of one sampled token. A line feed has no width that could carry its colour: a mark stands at its place (styles.css).
import { Fragment } from "react";

export function Piece({ text }: { text: string }) {
  if (!text.includes("\n")) return text;
  return text.split("\n").map((line, at) => (
    <Fragment key={at}>
      {at > 0 && (
        <>
          <span data-newline />
          {"\n"}
        </>
      )}
      {line}
    </Fragment>
  ));
}
