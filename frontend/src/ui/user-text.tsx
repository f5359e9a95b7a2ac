// What people, agents and models wrote: as text, set apart from the words around it, with symbols for what would act.
import type { ComponentProps } from "react";
import { visible } from "./plain-text";

interface UserTextProps extends Omit<ComponentProps<"bdi">, "children"> {
  text: string;
}

export function UserText({ text, ...rest }: UserTextProps) {
  return <bdi {...rest}>{visible(text)}</bdi>;
}
