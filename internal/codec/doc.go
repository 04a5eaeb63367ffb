// Package codec encrypts Temporal's payloads, so that nobody can read them in histories, and stores large ones elsewhere.
//
//	value → JSON → encrypted ([Keyring]) → at or above the threshold: stored ([Objects]), and a reference in its place → history
//
// Both are optional, and may be enabled while histories without them exist, whose payloads are read unchanged. Encryption has the format of Temporal's
// samples (AES-256-GCM), which codecs of other languages can read. Payloads are stored with the SDK's external storage, which does its I/O before and
// after workflow code.
//
// Arguments, results, signals, updates, queries, memos, summaries, heartbeats, and the messages and traces of errors are encrypted. Workflow ids, types,
// task queues, search attributes, and the types of errors are not.
//
// A payload whose key is missing in this process fails the workflow task. The server retries the task until a worker with the key takes it. The workflow
// does not fail, and no signal is lost; see dataConverter.
package codec
