package main

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	_ "k8s.io/kubernetes/pkg/features"
)

func setGates(gates string) error {
	return utilfeature.DefaultMutableFeatureGate.Set(gates)
}
