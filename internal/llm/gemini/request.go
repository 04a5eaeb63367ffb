package gemini

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// The types of request and reply bodies. Arguments stay raw JSON, because decoding changes large numbers.
type (
	request struct {
		System     *content    `json:"systemInstruction,omitempty"`
		Contents   []content   `json:"contents"`
		Tools      []tools     `json:"tools,omitempty"`
		ToolConfig *toolConfig `json:"toolConfig,omitempty"`
		Generation *generation `json:"generationConfig,omitempty"`
	}
	content struct {
		Role  string `json:"role,omitempty"`
		Parts []part `json:"parts"`
	}
	part struct {
		Text      string          `json:"text,omitempty"`
		Thought   bool            `json:"thought,omitempty"`
		Signature string          `json:"thoughtSignature,omitempty"` // of a call; a model that thinks requires it when the call is sent back
		Data      *blob           `json:"inlineData,omitempty"`
		File      *fileData       `json:"fileData,omitempty"`
		Call      *functionCall   `json:"functionCall,omitempty"`
		Result    *functionResult `json:"functionResponse,omitempty"`
	}
	blob struct {
		MIMEType string `json:"mimeType"`
		Data     string `json:"data"`
	}
	fileData struct {
		MIMEType string `json:"mimeType,omitempty"`
		URI      string `json:"fileUri"`
	}
	functionCall struct {
		ID   string          `json:"id,omitempty"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args,omitempty"`
	}
	functionResult struct {
		ID       string          `json:"id,omitempty"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
	}
	tools struct {
		Functions []function `json:"functionDeclarations"`
	}
	function struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitempty"`
		Parameters  map[string]any `json:"parametersJsonSchema"`
	}
	toolConfig struct {
		Calling calling `json:"functionCallingConfig"`
	}
	calling struct {
		Mode    string   `json:"mode"`
		Allowed []string `json:"allowedFunctionNames,omitempty"`
	}
	generation struct {
		Temperature *float64       `json:"temperature,omitempty"`
		MaxTokens   int            `json:"maxOutputTokens,omitempty"`
		MIMEType    string         `json:"responseMimeType,omitempty"`
		Schema      map[string]any `json:"responseJsonSchema,omitempty"`
	}
)

// The roles of the API. Tool results have the role user.
const (
	roleUser  = "user"
	roleModel = "model"
)

// newRequest returns a request in the form of the API. takesIDs says whether the API takes ids of calls and results.
func newRequest(req agent.ModelRequest, takesIDs bool) (*request, error) {
	r := &request{Generation: &generation{Temperature: req.Temperature, MaxTokens: req.MaxTokens}}
	if system := req.SystemPrompt(); system != "" {
		r.System = &content{Parts: []part{{Text: system}}}
	}
	names := callNames(req.Messages)
	var previous agent.Role
	for _, m := range wire.PairResults(req.Messages) {
		role, err := roleOf(m.Role)
		if err != nil {
			return nil, err
		}
		parts := partsOf(m, takesIDs, names)
		switch last := len(r.Contents) - 1; {
		case len(parts) == 0:
		case last >= 0 && m.Role == agent.RoleTool && previous == agent.RoleTool: // results of parallel calls have to be in one message
			r.Contents[last].Parts = append(r.Contents[last].Parts, parts...)
		default:
			r.Contents = append(r.Contents, content{Role: role, Parts: parts})
		}
		previous = m.Role
	}
	if len(req.OutputSchema) > 0 {
		schema, err := wire.ParseSchema("output_schema", req.OutputSchema)
		if err != nil {
			return nil, err
		}
		r.Generation.MIMEType, r.Generation.Schema = "application/json", schema
	}
	if g := r.Generation; g.Temperature == nil && g.MaxTokens == 0 && g.Schema == nil {
		r.Generation = nil
	}
	return r, r.addTools(req)
}

func (r *request) addTools(req agent.ModelRequest) error {
	if len(req.Tools) == 0 {
		return nil
	}
	var declared tools
	for i := range req.Tools {
		schema, err := wire.ParseSchema(fmt.Sprintf("tools[%d].parameters", i), req.Tools[i].Parameters)
		if err != nil {
			return err
		}
		declared.Functions = append(declared.Functions, function{Name: req.Tools[i].Name, Description: req.Tools[i].Description, Parameters: schema})
	}
	r.Tools = []tools{declared}
	switch req.ToolChoice {
	case "":
	case "auto", "none":
		r.ToolConfig = &toolConfig{calling{Mode: strings.ToUpper(req.ToolChoice)}}
	case "required":
		r.ToolConfig = &toolConfig{calling{Mode: "ANY"}}
	default:
		r.ToolConfig = &toolConfig{calling{Mode: "ANY", Allowed: []string{req.ToolChoice}}}
	}
	return nil
}

func roleOf(r agent.Role) (string, error) {
	switch r {
	case agent.RoleUser, agent.RoleTool, agent.RoleSystem: // the system prompt is elsewhere
		return roleUser, nil
	case agent.RoleAssistant:
		return roleModel, nil
	default:
		return "", agent.Invalid("role", "unknown role %q", r)
	}
}

// callNames returns the name of each call, which the API requires in the result. Results may lack it.
func callNames(messages []agent.Message) map[agent.CallID]string {
	names := map[agent.CallID]string{}
	for _, m := range messages {
		for i := range m.Blocks {
			if wire.IsToolCall(&m.Blocks[i]) {
				names[agent.CallID(m.Blocks[i].ID)] = m.Blocks[i].Name
			}
		}
	}
	return names
}

func partsOf(m agent.Message, takesIDs bool, names map[agent.CallID]string) []part {
	var parts []part
	for i := range m.Blocks {
		b := &m.Blocks[i]
		p := part{}
		switch {
		case b.Type == agent.BlockText:
			p.Text = b.Text
		case wire.IsToolCall(b):
			p = callPart(b)
		case b.Type == agent.BlockToolResult:
			p.Result = &functionResult{ID: string(b.ToolCallID), Name: cmp.Or(names[b.ToolCallID], b.Name), Response: responseOf(b)}
		case wire.IsReasoning(b):
		case m.Role == agent.RoleUser:
			p = mediaPart(b)
		default:
			p.Text = wire.OmissionNote(b, "the provider takes none back")
		}
		if !takesIDs {
			p.dropIDs()
		}
		isBlank := p.Text != "" && strings.TrimSpace(p.Text) == ""
		if p != (part{}) && !isBlank {
			parts = append(parts, p)
		}
	}
	return parts
}

func (p *part) dropIDs() {
	if p.Call != nil {
		p.Call.ID = ""
	}
	if p.Result != nil {
		p.Result.ID = ""
	}
}

// extras are the extras of a tool call block.
type extras struct {
	Signature string `json:"thought_signature"`
}

func callPart(b *agent.Block) part {
	var saved extras
	_ = json.Unmarshal(b.Extras, &saved) // a call from another provider has no signature
	return part{Call: &functionCall{ID: b.ID, Name: b.Name, Args: wire.ToolArguments(b)}, Signature: saved.Signature}
}

// responseOf returns a result as an object, which the API requires.
func responseOf(b *agent.Block) json.RawMessage {
	text := wire.ResultText(b)
	if b.Status != agent.ResultError && strings.HasPrefix(text, "{") && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	key := "output"
	if b.Status == agent.ResultError {
		key = "error"
	}
	wrapped, _ := json.Marshal(map[string]string{key: text}) // strings always marshal
	return wrapped
}

// mediaPart returns a block of a user's message that is not text as a part, or a note.
func mediaPart(b *agent.Block) part {
	const unsupported = "the provider takes images, audio, PDF and text"
	switch {
	case b.Type != agent.BlockImage && b.Type != agent.BlockAudio && b.Type != agent.BlockFile:
		return part{Text: wire.OmissionNote(b, unsupported)}
	case b.FileID != "":
		return part{File: &fileData{MIMEType: b.MIMEType, URI: b.FileID}}
	case b.URL != "":
		return part{Text: wire.OmissionNote(b, "the provider fetches no URL")}
	case !isSupported(b.MIMEType):
		return part{Text: wire.OmissionNote(b, unsupported)}
	}
	if _, omission := wire.DecodeBase64(b); omission != "" {
		return part{Text: wire.OmissionNote(b, omission)}
	}
	return part{Data: &blob{MIMEType: b.MIMEType, Data: b.Base64}}
}

// isSupported reports whether Gemini reads a MIME type.
func isSupported(mime string) bool {
	switch mime {
	case "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf", "application/json":
		return true
	}
	return strings.HasPrefix(mime, "audio/") || strings.HasPrefix(mime, "text/")
}
