package offline

import "regexp"

// prompt is a message, or a part of a message, with the answer. In the template $1, $2 … stand for the submatches of the pattern, $[1] for the first
// submatch as a list of words, and $api for the URL of the sample API.
type prompt struct {
	pattern  *regexp.Regexp
	tool     string // tool to call; empty: answer with the template
	template string // text of the answer, arguments of the call, or step of a pipeline
}

// prompts returns the messages that are not about pipelines. The first match counts.
func prompts() []prompt {
	return []prompt{
		{
			regexp.MustCompile(`(?is)^\s*ask ([\w.-]*\w):\s*(\S.*)$`), delegateTool,
			`{"agent_type":"langchain_agent","inputs":{"message":"$2"},"config":{"agent":"$1"}}`,
		},
		{
			regexp.MustCompile(`(?i)^add e-?mail notification when(?:ever)? price (?:(?:drops |falls |is )?(?:below|under)|<) ?\$?(\d+)`), patchTool,
			`{"workflow_tag":"main","patch_spec":{"operations":[` +
				`{"op":"add","path":"/nodes/-","value":{"id":"price_check","type":"condition","expr":"price < $1"}},` +
				`{"op":"add","path":"/nodes/-","value":{"id":"send_email","type":"task","config":{"action":"email","subject":"Price drop!"}}},` +
				`{"op":"add","path":"/edges/-","value":{"from":"fetch_flights","to":"price_check"}},` +
				`{"op":"add","path":"/edges/-","value":{"from":"price_check","to":"send_email","condition":"true"}}],` +
				`"description":"Add price drop email notification"}}`,
		},
		{regexp.MustCompile(`(?i)^which file is open\?`), "open_file", `{}`},
		{regexp.MustCompile(`If not, answer HEARTBEAT_OK\.$`), "", "HEARTBEAT_OK"},
	}
}

// The tools of [prompts] and [clauses].
const (
	delegateTool = "delegate_to_agent"
	patchTool    = "patch_workflow"
	pipelineTool = "execute_pipeline"
)

// clauses returns the parts of messages about pipelines, grouped by step: the source of the rows, then the other steps in their order. The first match
// of a group counts.
func clauses() [][]prompt {
	step := func(pattern, template string) prompt {
		return prompt{pattern: regexp.MustCompile(`(?i)` + pattern), template: template}
	}
	const flights = `{"step":"http_request","url":"$api/flights`
	return [][]prompt{
		{
			step(`\bfetch (https?://[^\s,]+)`, `{"step":"http_request","url":"$1","method":"GET"}`),
			step(`\bfetch (airlines|bookings)\b`, `{"step":"http_request","url":"$api/$1","method":"GET"}`),
			step(`\bflights?(?: prices)?(?: from)? (?-i:([A-Z]{3}) to ([A-Z]{3}))\b`, flights+`","method":"GET","params":{"dest":"$2","origin":"$1"}}`),
			step(`\b(?:fetch(?: twice)?|cheapest \d+) flights?\b`, flights+`","method":"GET","params":{"dest":"LAX","origin":"NYC"}}`),
		},
		{step(`\bnonstop\b`, `{"step":"table_filter","condition":{"field":"stops","op":"=","value":0}}`)},
		{step(`\b(?:under|below) \$?(\d+)`, `{"step":"table_filter","condition":{"field":"price","op":"<","value":$1}}`)},
		{
			step(`\bsort(?: them| those)? by (\w+),? (?:descending|highest first)\b`, `{"step":"table_sort","field":"$1","order":"desc"}`),
			step(`\bsort(?: them| those)? by (\w+)`, `{"step":"table_sort","field":"$1","order":"asc"}`),
			step(`\bcheapest\b`, `{"step":"table_sort","field":"price","order":"asc"}`),
		},
		{step(`\b(?:top|first|cheapest) (\d{1,6})\b`, `{"step":"top_k","k":$1}`)},
		{step(`\bonly (\w+(?:(?:, and |, | and )\w+)*)`, `{"step":"table_select","fields":$[1]}`)},
	}
}
