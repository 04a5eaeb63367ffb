package offline

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"math"
	"net/http"
	"slices"
	"strings"
)

// The bounds of a request for embeddings; the number of texts is OpenAI's.
const (
	defaultDimensions = 256
	maxDimensions     = 4_096
	maxEmbedTexts     = 2_048
)

type embeddingsRequest struct {
	Model          string          `json:"model"`
	Input          json.RawMessage `json:"input"`
	EncodingFormat string          `json:"encoding_format"`
	Dimensions     *int            `json:"dimensions"`

	texts []string
}

// The shapes of the answer.
type (
	embeddings struct {
		Object string         `json:"object"`
		Data   []embedding    `json:"data"`
		Model  string         `json:"model"`
		Usage  embeddingUsage `json:"usage"`
	}
	embedding struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"` // numbers, or base64 of little-endian 32-bit floats
	}
	embeddingUsage struct {
		PromptTokens int `json:"prompt_tokens"`
		TotalTokens  int `json:"total_tokens"`
	}
)

func (m *Model) embed(w http.ResponseWriter, r *http.Request) {
	body, done := m.admit(w, r)
	defer done()
	if body == nil {
		return
	}
	req, refused := decodeEmbeddings(body, m.cfg.Models)
	if refused != nil {
		writeError(w, refused)
		return
	}
	out := embeddings{Object: "list", Data: []embedding{}, Model: req.Model}
	bytes := 0
	for i, text := range req.texts {
		if r.Context().Err() != nil {
			return
		}
		bytes += len(text)
		e := embedding{Object: "embedding", Index: i}
		vector := vectorOf(text, *req.Dimensions)
		if e.Embedding = vector; req.EncodingFormat == "base64" {
			e.Embedding = packVector(vector)
		}
		out.Data = append(out.Data, e)
	}
	out.Usage.PromptTokens = (bytes + 3) / 4
	out.Usage.TotalTokens = out.Usage.PromptTokens
	writeJSON(w, http.StatusOK, out)
}

func decodeEmbeddings(body []byte, models []string) (*embeddingsRequest, *apiError) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, unreadable()
	}
	for name := range members {
		if !slices.Contains([]string{"model", "input", "encoding_format", "dimensions", "user"}, name) {
			return nil, badRequest("", "", "Unrecognized request argument supplied: %.100s", name)
		}
	}
	req := &embeddingsRequest{}
	if err := json.Unmarshal(body, req); err != nil {
		return nil, wrongType(err)
	}
	if req.Dimensions == nil {
		n := defaultDimensions
		req.Dimensions = &n
	}
	switch {
	case req.Model == "":
		return nil, badRequest("", "", "you must provide a model parameter")
	case !slices.Contains([]string{"", "float", "base64"}, req.EncodingFormat):
		return nil, badRequest("encoding_format", "invalid_value",
			"Invalid value: '%.100s'. Supported values are: 'float' and 'base64'.", req.EncodingFormat)
	case *req.Dimensions < 1 || *req.Dimensions > maxDimensions:
		return nil, badRequest("dimensions", "invalid_value",
			"Invalid value for 'dimensions' = %d. Must be from 1 to %d.", *req.Dimensions, maxDimensions)
	}
	if refused := req.readInput(); refused != nil {
		return nil, refused
	}
	if !slices.Contains(models, req.Model) {
		return nil, unknownModel(req.Model)
	}
	return req, nil
}

// readInput reads a text or a list of texts.
func (r *embeddingsRequest) readInput() *apiError {
	var one string
	switch {
	case len(r.Input) == 0 || string(r.Input) == "null":
		return badRequest("input", "missing_required_parameter", "Missing required parameter: 'input'.")
	case json.Unmarshal(r.Input, &one) == nil:
		r.texts = []string{one}
	case json.Unmarshal(r.Input, &r.texts) != nil:
		return badRequest("input", "invalid_type", "Invalid type for 'input': the offline model takes a string or an array of strings.")
	}
	if n := len(r.texts); n == 0 || n > maxEmbedTexts {
		return badRequest("input", "invalid_value", "Invalid 'input': expected from 1 to %d texts, but got %d.", maxEmbedTexts, n)
	}
	for i, text := range r.texts {
		if text == "" {
			return badRequest("input", "invalid_value", "Invalid 'input[%d]': input cannot be an empty string.", i)
		}
	}
	return nil
}

// vectorOf hashes a text's words, and less heavily the groups of three letters in them, into the places of a vector of length 1: texts that
// have words in common, or parts of words, are near each other. It knows nothing of meaning. The same text always has the same vector.
func vectorOf(text string, dimensions int) []float32 {
	const wordWeight, stopWeight, groupWeight = 1, 0.1, 0.15
	sums := make([]float64, dimensions)
	places := uint64(len(sums))
	add := func(feature string, weight float64) {
		h := fnv.New64a()
		_, _ = h.Write([]byte(feature)) // a hash takes everything
		v := h.Sum64()
		if v>>63 == 1 {
			weight = -weight
		}
		sums[v%places] += weight
	}
	words := splitWords(text)
	counts := map[string]int{}
	for _, w := range words {
		counts[w]++
	}
	for _, w := range words {
		n := counts[w]
		if n == 0 {
			continue // it was counted where it stood first
		}
		counts[w] = 0
		often := 1 + math.Log(float64(n))
		if stopWord(w) {
			add("s "+w, stopWeight*often)
			continue
		}
		add("w "+stem(w), wordWeight*often)
		runes := []rune(" " + w + " ")
		for i := 0; i+3 <= len(runes); i++ {
			add("g "+string(runes[i:i+3]), groupWeight*often)
		}
	}
	length := norm(sums)
	if length == 0 { // no words, or they cancel each other out
		add("t "+strings.TrimSpace(text), wordWeight)
		length = norm(sums)
	}
	out := make([]float32, dimensions)
	for i, x := range sums {
		out[i] = float32(x / length)
	}
	return out
}

func norm(vector []float64) float64 {
	sum := 0.0
	for _, x := range vector {
		sum += x * x
	}
	return math.Sqrt(sum)
}

func packVector(vector []float32) string {
	raw := make([]byte, 0, 4*len(vector))
	for _, x := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
