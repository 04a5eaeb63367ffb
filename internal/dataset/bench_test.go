package dataset_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/dataset"
)

const benchRows = 1_000_000

func million(f dataset.Format) []byte {
	var b bytes.Buffer
	if f == dataset.CSV {
		b.WriteString("id,name,price,active,category\n")
	}
	for i := range benchRows {
		switch f { //nolint:exhaustive // NDJSON is JSON without brackets
		case dataset.CSV:
			fmt.Fprintf(&b, "%d,product %d,%d.%02d,%t,c%d\n", i, i, i%1000, i%100, i%2 == 0, i%17)
			continue
		case dataset.JSON:
			b.WriteByte("[,"[min(i, 1)])
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"product %d","price":%d.%02d,"active":%t,"category":"c%d"}`, i, i, i%1000, i%100, i%2 == 0, i%17)
		if f == dataset.NDJSON {
			b.WriteByte('\n')
		}
	}
	if f == dataset.JSON {
		b.WriteByte(']')
	}
	return b.Bytes()
}

func BenchmarkRead(b *testing.B) {
	for _, f := range []dataset.Format{dataset.JSON, dataset.NDJSON, dataset.CSV} {
		body := million(f)
		b.Run(string(f), func(b *testing.B) { benchmarkRead(b, f, body) })
	}
	object := append(append([]byte(`{"total":1,"items":`), million(dataset.JSON)...), '}')
	b.Run("json within an object", func(b *testing.B) { benchmarkRead(b, dataset.JSON, object) })
}

func benchmarkRead(b *testing.B, f dataset.Format, body []byte) {
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var rows []dataset.Row
	for b.Loop() {
		var err error
		rows, err = dataset.Read(bytes.NewReader(body), f, dataset.Limits{})
		require.NoError(b, err)
	}
	b.StopTimer()
	var with, without runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&with)
	require.Len(b, rows, benchRows) // the last use: they are garbage from here on
	runtime.GC()
	runtime.ReadMemStats(&without)
	b.ReportMetric(float64(with.HeapAlloc-without.HeapAlloc)/(1<<20), "MiB-kept")
	b.ReportMetric(float64(len(body))/(1<<20), "MiB-body")
}

func BenchmarkExport(b *testing.B) {
	body := million(dataset.JSON)
	for _, f := range []dataset.Format{dataset.JSON, dataset.NDJSON, dataset.CSV} {
		b.Run(string(f), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, dataset.Export(io.Discard, opener(body), f))
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	rows, err := dataset.ReadJSON(bytes.NewReader(million(dataset.JSON)), dataset.Limits{})
	require.NoError(b, err)
	for b.Loop() {
		require.NoError(b, dataset.Write(io.Discard, rows))
	}
}
