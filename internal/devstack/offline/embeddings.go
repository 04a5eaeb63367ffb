package offline

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"net/http"
	"strings"
)

// embed answers a request for the embeddings of one or more texts.
func embed(w http.ResponseWriter, body []byte) {
	var req struct {
		Model string          `json:"model"`
		Input json.RawMessage `json:"input"`
	}
	texts := []string{""}
	_ = json.Unmarshal(body, &req) // after an error the input is empty, which is refused below
	if json.Unmarshal(req.Input, &texts[0]) != nil && json.Unmarshal(req.Input, &texts) != nil {
		writeError(w, refusal(http.StatusBadRequest, "", "Invalid 'input': want a text or a list of texts."))
		return
	}
	data, tokens := []object{}, 0
	for i, text := range texts {
		tokens += (len(text) + 3) / 4
		data = append(data, object{"object": "embedding", "index": i, "embedding": embedding(text)})
	}
	usage := object{"prompt_tokens": tokens, "total_tokens": tokens}
	writeJSON(w, http.StatusOK, object{"object": "list", "model": req.Model, "data": data, "usage": usage})
}

// embedding returns a vector of length 1. The hash of each word of the text selects an element of the vector, so texts with common words are near each
// other.
func embedding(text string) []float64 {
	const size = 256
	vector := make([]float64, size)
	vector[0] = 1e-3 // because the vector of a text without words must not be zero
	sum := vector[0] * vector[0]
	for _, word := range wordPattern.FindAllString(strings.ToLower(text), -1) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(word)) // writing to a hash never fails
		element := &vector[h.Sum32()%size]
		sum += 2**element + 1 // (x+1)² - x²
		*element++
	}
	for i := range vector {
		vector[i] /= math.Sqrt(sum)
	}
	return vector
}
