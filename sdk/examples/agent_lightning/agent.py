"""An agent of Agent-lightning 1.0: it reads its three variables and those of its task, and posts
its reward.
"""

import os

import httpx
from openai import OpenAI


def main() -> None:
    number = os.environ["NUMBER"]
    client = OpenAI(
        base_url=os.environ["AGL_OPENAI_BASE_URL"], api_key=os.environ["AGL_KEY"], max_retries=6
    )
    asked = [{"role": "user", "content": f"Let's play a game. Say you are {number}."}]
    reply = client.chat.completions.create(
        model="auto", messages=asked, temperature=1.0, max_tokens=16
    )
    said = (reply.choices[0].message.content or "").lower()
    value = (
        1.0
        if f"i am {number}" in said or f"i'm {number}" in said
        else -1.0
        if f"not {number}" in said
        else 0.0
    )
    event = {"event_type": "reward", "data": {"value": value}}
    headers = {"Authorization": f"Bearer {os.environ['AGL_KEY']}"}
    httpx.post(
        os.environ["AGL_EVENT_URL"], json=event, headers=headers, timeout=10
    ).raise_for_status()


if __name__ == "__main__":
    main()
