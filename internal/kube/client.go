package kube

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Client reaches the resources of a cluster that this package uses. The clientset of client-go links every API of Kubernetes, which is
// 30 MB of a program.
type Client interface {
	Jobs(namespace string) Jobs
	Pods(namespace string) Pods
	Secrets(namespace string) Secrets
}

// Jobs are the Jobs of a namespace.
type Jobs interface {
	Create(ctx context.Context, job *batchv1.Job, opts metav1.CreateOptions) (*batchv1.Job, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*batchv1.Job, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*batchv1.Job, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Pods are the pods of a namespace.
type Pods interface {
	List(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error)
	GetLogs(name string, opts *corev1.PodLogOptions) *rest.Request
}

// Secrets are the Secrets of a namespace.
type Secrets interface {
	Create(ctx context.Context, secret *corev1.Secret, opts metav1.CreateOptions) (*corev1.Secret, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Secret, error)
}

// restClient is the [Client] of a real cluster.
type restClient struct {
	batch, core rest.Interface
	params      runtime.ParameterCodec
}

func newRESTClient(cfg *rest.Config) (*restClient, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{batchv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	open := func(path string, version schema.GroupVersion) (rest.Interface, error) {
		api := rest.CopyConfig(cfg)
		api.APIPath, api.GroupVersion, api.NegotiatedSerializer = path, &version, codecs
		return rest.RESTClientForConfigAndClient(api, web)
	}
	c := &restClient{params: runtime.NewParameterCodec(scheme)}
	if c.batch, err = open("/apis", batchv1.SchemeGroupVersion); err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	if c.core, err = open("/api", corev1.SchemeGroupVersion); err != nil {
		return nil, fmt.Errorf("core: %w", err)
	}
	return c, nil
}

// Jobs implements [Client].
func (c *restClient) Jobs(namespace string) Jobs {
	return &jobs{endpoint[*batchv1.Job]{c.batch, c.params, namespace, "jobs", func() *batchv1.Job { return &batchv1.Job{} }}}
}

// Pods implements [Client].
func (c *restClient) Pods(namespace string) Pods {
	return &pods{endpoint[*corev1.PodList]{c.core, c.params, namespace, "pods", func() *corev1.PodList { return &corev1.PodList{} }}}
}

// Secrets implements [Client].
func (c *restClient) Secrets(namespace string) Secrets {
	return &endpoint[*corev1.Secret]{c.core, c.params, namespace, "secrets", func() *corev1.Secret { return &corev1.Secret{} }}
}

// endpoint makes the requests for one kind of object; T is what they answer.
type endpoint[T runtime.Object] struct {
	api       rest.Interface
	params    runtime.ParameterCodec
	namespace string
	name      string // as in addresses: "jobs"
	empty     func() T
}

func (r *endpoint[T]) to(request *rest.Request, opts runtime.Object) *rest.Request {
	return request.Namespace(r.namespace).Resource(r.name).VersionedParams(opts, r.params)
}

func (r *endpoint[T]) answer(ctx context.Context, request *rest.Request) (T, error) {
	v := r.empty()
	err := request.Do(ctx).Into(v)
	return v, err
}

// Create makes an object.
func (r *endpoint[T]) Create(ctx context.Context, v T, opts metav1.CreateOptions) (T, error) {
	return r.answer(ctx, r.to(r.api.Post(), &opts).Body(v))
}

// Get returns an object.
func (r *endpoint[T]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	return r.answer(ctx, r.to(r.api.Get(), &opts).Name(name))
}

type jobs struct{ endpoint[*batchv1.Job] }

// Patch changes a Job.
func (j *jobs) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, sub ...string) (*batchv1.Job, error) {
	return j.answer(ctx, j.to(j.api.Patch(kind), &opts).Name(name).SubResource(sub...).Body(data))
}

// Delete deletes a Job.
func (j *jobs) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return j.api.Delete().Namespace(j.namespace).Resource(j.name).Name(name).Body(&opts).Do(ctx).Error()
}

type pods struct{ endpoint[*corev1.PodList] }

// List returns the pods that opts select.
func (p *pods) List(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
	return p.answer(ctx, p.to(p.api.Get(), &opts))
}

// GetLogs returns the request for a pod's log.
func (p *pods) GetLogs(name string, opts *corev1.PodLogOptions) *rest.Request {
	return p.to(p.api.Get(), opts).Name(name).SubResource("log")
}
