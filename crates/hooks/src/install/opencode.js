// Windlass bridge plugin for OpenCode.
// Written by `windlass install opencode`, removed by `windlass uninstall opencode`. Changes are overwritten.
//
// Before a tool runs, the program is asked. Anything but a clean "allow" throws, and the tool does not run.

import { spawn } from "node:child_process"

const BINARY = "@BINARY@"
const TIMEOUT_MS = 30_000
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value)

// Starts the program once and gives back its answer. Rejects unless the program allows.
const ask = (event) =>
  new Promise((resolve, reject) => {
    let child
    let timer
    let bytes = 0
    const stdout = []
    const stderr = []
    const refuse = (why) => {
      clearTimeout(timer)
      if (child?.pid !== undefined) child.kill("SIGKILL")
      reject(new Error(`windlass: ${why}`))
    }
    try {
      const text = JSON.stringify(event)
      child = spawn(BINARY, ["hook", "--client", "opencode"], { stdio: ["pipe", "pipe", "pipe"] })
      timer = setTimeout(() => refuse(`no answer within ${TIMEOUT_MS} ms`), TIMEOUT_MS)
      child.on("error", (error) => refuse(`cannot run ${BINARY}: ${error.message}`))
      // The program may answer without reading everything.
      child.stdin.on("error", () => {})
      const collect = (chunks) => (chunk) => {
        bytes += chunk.length
        if (bytes > OUTPUT_BYTES_MAX) refuse("the answer is too long")
        else chunks.push(chunk)
      }
      child.stdout.on("data", collect(stdout))
      child.stderr.on("data", collect(stderr))
      child.on("close", (code, signal) => {
        const said = Buffer.concat(stderr).toString("utf8").trim()
        let answer
        try {
          answer = JSON.parse(Buffer.concat(stdout).toString("utf8"))
        } catch {
          answer = undefined
        }
        const reason = isObject(answer) && typeof answer.reason === "string" ? answer.reason : said
        if (code !== 0) return refuse(reason || `the program ended with ${signal ?? code}`)
        if (!isObject(answer)) return refuse("the answer cannot be read")
        if (answer.decision !== "allow") return refuse(reason || "refused without a reason")
        if (answer.input !== undefined && !isObject(answer.input)) return refuse("the answer's input is not an object")
        clearTimeout(timer)
        resolve(answer)
      })
      child.stdin.end(text)
    } catch (error) {
      refuse(error instanceof Error ? error.message : String(error))
    }
  })

export const Windlass = async ({ directory, worktree }) => {
  const cwd = directory ?? worktree ?? process.cwd()
  const about = (name, session, fields) => ({
    client: "opencode",
    hook_event_name: name,
    session_id: session,
    cwd,
    ...fields,
  })
  // Told after the fact: a failure cannot undo anything, so that it is only shown.
  const tell = async (event) => {
    try {
      await ask(event)
    } catch (error) {
      console.error(error.message)
    }
  }
  return {
    "tool.execute.before": async (input, output) => {
      const answer = await ask(
        about("tool.execute.before", input.sessionID, {
          tool_name: input.tool,
          tool_input: output.args,
          tool_use_id: input.callID,
        }),
      )
      if (answer.input === undefined) return
      // OpenCode runs the tool with this very object, so it is changed and not replaced.
      if (!isObject(output.args)) throw new Error("windlass: the tool's input cannot be replaced")
      for (const key of Object.keys(output.args)) delete output.args[key]
      Object.assign(output.args, answer.input)
    },
    "tool.execute.after": async (input, output) => {
      await tell(
        about("tool.execute.after", input.sessionID, {
          tool_name: input.tool,
          tool_input: input.args,
          tool_use_id: input.callID,
          tool_response: output,
        }),
      )
    },
    "chat.message": async (input, output) => {
      const texts = (output?.parts ?? []).filter((part) => part?.type === "text" && !part.synthetic)
      const prompt = texts.map((part) => part.text).join("\n")
      await ask(about("chat.message", input.sessionID, { prompt }))
    },
    event: async ({ event }) => {
      if (event?.type !== "session.created" && event?.type !== "session.deleted") return
      await tell(about(event.type, event.properties?.info?.id ?? event.properties?.sessionID, {}))
    },
  }
}
