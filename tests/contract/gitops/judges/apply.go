package main

import (
	"context"
	"encoding/json"

	"github.com/fluxcd/pkg/ssa"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	manager = "kustomize-controller"
	group   = "kustomize.toolkit.fluxcd.io"
)

type application struct {
	Kubeconfig string          `json:"kubeconfig"`
	Object     json.RawMessage `json:"object"`
}

type applied struct {
	Action string `json:"action"`
}

// apply runs Flux's own server-side apply with the options that concern us of those that kustomize-controller sets
// (v1.10): it makes fields its own that any program whose name begins with kubectl has set, unless the object says
// that its policy is Merge.
func apply(ctx context.Context, asked application) (applied, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(asked.Object); err != nil {
		return applied{}, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", asked.Kubeconfig)
	if err != nil {
		return applied{}, err
	}
	reach, err := client.New(config, client.Options{})
	if err != nil {
		return applied{}, err
	}
	options := ssa.DefaultApplyOptions()
	options.Cleanup = ssa.ApplyCleanupOptions{
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: manager, OperationType: metav1.ManagedFieldsOperationUpdate},
		},
		Exclusions: map[string]string{group + "/ssa": "Merge"},
	}
	entry, err := ssa.NewResourceManager(reach, nil, ssa.Owner{Field: manager, Group: group}).Apply(ctx, object, options)
	if err != nil {
		return applied{}, err
	}
	return applied{Action: entry.Action.String()}, nil
}
