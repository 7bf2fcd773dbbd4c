"""Predicts rows of a table with the perceptron of torch_nets.py: python torch_rows.py TABLE.csv

Categories become ids by the table's own vocabulary, numbers are standardized; missing and unknown values are not considered.
"""

import csv
import sys

from answer_times import latencies
import torch
from torch_nets import MLP


def main(path: str) -> None:
    with open(path, encoding='utf-8', newline='') as file:
        table = list(csv.DictReader(file))
    numbers, categories = ([name for name in table[0] if name.startswith(kind)] for kind in ('number', 'category'))
    ids = {name: {value: i for i, value in enumerate({row[name] for row in table})} for name in categories}
    std, mean = torch.std_mean(torch.tensor([[float(row[name]) for name in numbers] for row in table]), 0)
    net = MLP([len(values) for values in ids.values()], len(numbers)).eval()

    def predict(row):
        numeric = (torch.tensor([[row[name] for name in numbers]]) - mean) / std
        categorical = torch.tensor([[ids[name][row[name]] for name in categories]])
        return torch.softmax(net.logits(numeric, categorical), 1).numpy()

    with torch.inference_mode():
        print(latencies(predict, [{**row, **{name: float(row[name]) for name in numbers}} for row in table[:100]]))


if __name__ == '__main__':
    main(sys.argv[1])
