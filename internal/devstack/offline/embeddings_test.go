package offline_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/offline"
)

type vectors struct {
	Object, Model string
	Data          []struct {
		Object    string
		Index     int
		Embedding json.RawMessage
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
}

func postEmbeddings(t *testing.T, url, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/embeddings", strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, raw
}

func embed(t *testing.T, url, more string, texts ...string) ([][]float32, vectors) {
	t.Helper()
	input, err := json.Marshal(texts)
	require.NoError(t, err)
	status, raw := postEmbeddings(t, url, `{"model":"turnstone-offline","input":`+string(input)+more+`}`)
	require.Equal(t, 200, status, "%s", raw)
	var v vectors
	require.NoError(t, json.Unmarshal(raw, &v))
	require.Len(t, v.Data, len(texts))
	var out [][]float32
	for i, d := range v.Data {
		require.Equal(t, i, d.Index)
		require.Equal(t, "embedding", d.Object)
		var packed string
		var floats []float32
		if json.Unmarshal(d.Embedding, &packed) == nil {
			b, err := base64.StdEncoding.DecodeString(packed)
			require.NoError(t, err)
			floats = make([]float32, len(b)/4)
			for i := range floats {
				floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
			}
		} else {
			require.NoError(t, json.Unmarshal(d.Embedding, &floats))
		}
		out = append(out, floats)
	}
	return out, v
}

func cosine(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestEmbeddings(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	texts := []string{
		"A refund is paid within thirty days of the purchase.", "Refunds are paid after a purchase", "Tea is served at four o'clock in the garden.", "how long does the refund take?",
		"what is the name of the one that is in the garden", "what is the price of the one that is at the shop", "!!!", "the", "你好", strings.Repeat("long text ", 5000), "\x00",
	}
	got, v := embed(t, url, "", texts...)
	require.Equal(t, "list", v.Object)
	require.Equal(t, "turnstone-offline", v.Model)
	require.Equal(t, (len(strings.Join(texts, ""))+3)/4, v.Usage.Prompt)
	require.Equal(t, v.Usage.Prompt, v.Usage.Total)
	for i, x := range got {
		require.Len(t, x, 256)
		require.InDelta(t, 1, cosine(x, x), 1e-5, texts[i])
	}
	require.Greater(t, cosine(got[0], got[1]), 0.5)
	require.Greater(t, cosine(got[3], got[0]), 0.25)
	require.Less(t, cosine(got[3], got[2]), 0.15)
	require.Less(t, cosine(got[4], got[5]), 0.3, "words that every text has make texts alike")
	again, _ := embed(t, url, "", texts[3])
	require.Equal(t, got[3], again[0], "the same text has another vector")
	packed, _ := embed(t, url, `,"encoding_format":"base64"`, texts[3])
	require.Equal(t, got[3], packed[0])
	small, _ := embed(t, url, `,"dimensions":8,"encoding_format":"float","user":"u"`, texts...)
	for _, x := range small {
		require.Len(t, x, 8)
		require.InDelta(t, 1, cosine(x, x), 1e-5)
	}
	status, raw := postEmbeddings(t, url, `{"model":"turnstone-offline","input":"one"}`)
	require.Equal(t, 200, status)
	require.Contains(t, string(raw), `"index":0`)
}

func TestSlotsAreGivenBack(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{MaxConcurrent: 1})
	for range 3 {
		embed(t, url, "", "tea")
		require.Equal(t, "word1", text(t, ask(t, url, request("", user("say 1 word")))))
		require.Equal(t, http.StatusBadRequest, post(t, url, "{").StatusCode)
	}
}

func TestRefusedEmbeddings(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	for body, want := range map[string]string{
		`[`: "could not parse", `null`: "could not parse",
		`{"input":"x"}`:                                                                   "provide a model",
		`{"model":"gpt-9","input":"x"}`:                                                   "`gpt-9` does not exist",
		`{"model":"turnstone-offline"}`:                                                   "Missing required parameter: 'input'",
		`{"model":"turnstone-offline","input":null}`:                                      "Missing required parameter: 'input'",
		`{"model":"turnstone-offline","input":""}`:                                        "'input[0]'",
		`{"model":"turnstone-offline","input":["a",""]}`:                                  "'input[1]'",
		`{"model":"turnstone-offline","input":[]}`:                                        "got 0",
		`{"model":"turnstone-offline","input":[1,2]}`:                                     "an array of strings",
		`{"model":"turnstone-offline","input":["a"` + strings.Repeat(`,"a"`, 2048) + `]}`: "got 2049",
		`{"model":"turnstone-offline","input":"x","dimensions":0}`:                        "'dimensions' = 0",
		`{"model":"turnstone-offline","input":"x","dimensions":4097}`:                     "'dimensions' = 4097",
		`{"model":"turnstone-offline","input":"x","dimensions":"8"}`:                      "'dimensions': expected int",
		`{"model":"turnstone-offline","input":"x","encoding_format":"hex"}`:               "'float' and 'base64'",
		`{"model":"turnstone-offline","input":"x","inptu":1}`:                             "Unrecognized request argument supplied: inptu",
	} {
		status, raw := postEmbeddings(t, url, body)
		require.GreaterOrEqual(t, status, 400, body)
		require.Less(t, status, 500, body)
		var e struct{ Error struct{ Message string } }
		require.NoError(t, json.Unmarshal(raw, &e))
		require.Contains(t, e.Error.Message, want)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/embeddings", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
}
