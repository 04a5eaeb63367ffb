package results

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// FuzzFindRows compares the streaming reader with the value in the document, for documents in the form in which they are stored.
func FuzzFindRows(f *testing.F) {
	for _, data := range []string{`[]`, `[1,"]",{"a":"\\\""}]`, `17`, `-1.5e3`, `true`, `"x,}"`, `{"data":[1]}`, `null`, ` [ 1 ] `, `"é\u0000"`} {
		f.Add("words", data, true)
		f.Add(`"data":`, data, false)
	}
	f.Fuzz(func(t *testing.T, output, data string, hasRef bool) {
		if !json.Valid([]byte(data)) {
			return
		}
		outputJSON, err := json.Marshal(output)
		require.NoError(t, err)
		document := `{"output":` + string(outputJSON) + `,"blocks":[{"data":` + data + `}], "data" : ` + data
		if hasRef {
			document += ` , "data_ref":"x"`
		}
		document += "}\n"
		for _, source := range []io.Reader{strings.NewReader(document), iotest.OneByteReader(strings.NewReader(document))} {
			found, ref, err := findRows(source)
			require.NoError(t, err)
			require.Empty(t, ref)
			if strings.TrimSpace(data) == "null" {
				require.Nil(t, found)
				continue
			}
			require.NotNil(t, found)
			var got bytes.Buffer
			_, err = got.ReadFrom(iotest.HalfReader(found))
			require.NoError(t, err)
			require.Equal(t, strings.Trim(data, " \n\t\r"), got.String())
		}
	})
}
