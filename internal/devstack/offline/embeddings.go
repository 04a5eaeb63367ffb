package offline

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"net/http"
	"strings"
)

// embed answers a request for embeddings of a text or of a list of texts.
func embed(w http.ResponseWriter, body []byte) {
	var req struct {
		Model string          `json:"model"`
		Input json.RawMessage `json:"input"`
	}
	texts := []string{""}
	_ = json.Unmarshal(body, &req) // then there is no input
	if json.Unmarshal(req.Input, &texts[0]) != nil && json.Unmarshal(req.Input, &texts) != nil {
		writeError(w, refuse(http.StatusBadRequest, "", "Invalid 'input': want a text or a list of texts."))
		return
	}
	data, tokens := []object{}, 0
	for i, text := range texts {
		tokens += (len(text) + 3) / 4
		data = append(data, object{"object": "embedding", "index": i, "embedding": vectorOf(text)})
	}
	usage := object{"prompt_tokens": tokens, "total_tokens": tokens}
	writeJSON(w, http.StatusOK, object{"object": "list", "model": req.Model, "data": data, "usage": usage})
}

// vectorOf returns a vector of length 1, with a text's words hashed into its elements. Texts with common words are near each other.
func vectorOf(text string) []float64 {
	const size = 256
	vector := make([]float64, size)
	vector[0] = 1e-3 // a text without words needs a direction, too
	sum := vector[0] * vector[0]
	for _, word := range anyWord.FindAllString(strings.ToLower(text), -1) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(word)) // a hash takes everything
		place := &vector[h.Sum32()%size]
		sum += 2**place + 1 // (x+1)² - x²
		*place++
	}
	for i := range vector {
		vector[i] /= math.Sqrt(sum)
	}
	return vector
}
