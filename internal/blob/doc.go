// Package blob is the content-addressed store for what is too large for a row: results, tool outputs, compiled plans (DESIGN §2,
// seed 004 §4). Content is named by its sha-256, written once, compressed, and verified whenever it is read.
//
//	cas://sha256:abcdef…            a reference, as it stands in results and messages
//	<tenant>/sha256/ab/cdef…        its object: one zstd stream
//	~tmp/<random>                   an upload under way; see [Store.Sweep]
//	~gone/abcdef…-<random>          a removal under way; see [Store.Remove]
//
// A reference means nothing without its tenant: the same reference of another tenant is not found.
//
// The bucket is a URL of gocloud.dev/blob. Built in are file:///folder, s3://bucket (also MinIO and others, by query parameters)
// and, for tests, mem://. Google Cloud Storage and Azure would add 23 and 6 MB to every binary, S3 adds 10; whoever needs them
// imports their driver (gocloud.dev/blob/gcsblob, azureblob) in their own main package and passes its URL.
package blob
