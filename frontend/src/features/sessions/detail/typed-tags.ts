/** Tags out of what is typed with commas between: each once, without blanks around. */
export function tagsTyped(text: string): string[] {
  return [
    ...new Set(
      text
        .split(",")
        .map((tag) => tag.trim())
        .filter(Boolean),
    ),
  ];
}
